// What timing knows of an instruction: its class, the registers it names, how many of them an execution
// touches.
//
// In:  the bits of an instruction. Out: `InstructionTiming`, decoded once per program counter.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace npu {

// What an instruction costs depends on its class only. One row of the latency table per entry.
enum class OpClass : uint8_t {
  IntAlu,
  IntMul,
  IntDiv,
  FpAlu,  // add, multiply, fused multiply-add, compare, convert
  FpMove,
  FpDiv,  // and square root
  Branch,
  ScalarLoad,
  ScalarStore,
  Csr,
  VectorConfig,
  VectorAlu,  // integer, logic, compare, merge, move, mask
  VectorMul,
  VectorDiv,
  VectorFp,     // add, multiply, fused multiply-add, convert
  VectorFpDiv,  // and square root
  VectorReduce,
  VectorReduceOrdered,
  VectorSlide,
  VectorGather,
  VectorToScalar,
  VectorLoad,
  VectorLoadElements,  // strided, indexed, segment: element by element
  VectorStore,
  VectorStoreElements,
  Sfu,
  Xlu,
  LaneId,
  ArrayWeights,
  ArrayInputs,
  ArrayPop,
  Dma,
  Count,
};

// How an instruction may change the flow of control or the vector configuration.
enum class BranchKind : uint8_t {
  None,
  Conditional,
  Jump,
  Call,
  IndirectCall,
  Return,
  Indirect,
  DirectConfig,    // vsetivli: all of its result is in the instruction
  IndirectConfig,  // vsetvli, vsetvl
};

// How many registers an operand spans, and so which of them an execution touches.
enum class OperandShape : uint8_t {
  None,
  Group,        // vl x SEW
  Wide,         // vl x 2 SEW
  Half,         // vl x SEW / 2
  Quarter,      // vl x SEW / 4
  Eighth,       // vl x SEW / 8
  Mask,         // one register of bits
  Single,       // element 0
  ElementBits,  // vl x the instruction's own element width (memory data, indices)
  Whole,        // a number of whole registers, whatever vl is
};

struct VectorOperand {
  uint8_t reg = 0;
  OperandShape shape = OperandShape::None;
};

// What timing needs of an instruction and that does not change between executions: decoded once per pc from
// its bits.
struct InstructionTiming {
  OpClass op = OpClass::IntAlu;
  std::array<uint8_t, 3> scalar_sources{};  // 0 = none (x0); floating-point registers are 32..63
  uint8_t scalar_dest = 0;
  std::array<VectorOperand, 4> vector_sources{};  // includes v0 when masked, and vd when it is read
  uint8_t vector_source_count = 0;
  VectorOperand vector_dest{};
  uint8_t element_bits = 0;  // ElementBits operands; else unused
  uint8_t fields = 1;        // segment accesses: fields; Whole operands: registers
  uint8_t arrays = 0;        // systolic arrays named, one bit each
  uint8_t element_code = 0;  // element type of pushes and pops
  bool vector = false;       // needs vl and vtype
  bool first_weights = false;
  BranchKind branch = BranchKind::None;
  uint8_t size_bytes = 4;
};

// What an execution adds.
struct VectorState {
  uint32_t vl = 0;
  uint8_t sew_bits = 0;
  float lmul = 1;
};

// Any 32 bits: what is not known to be slower is a single-cycle scalar operation.
InstructionTiming decode_timing(uint32_t bits);  // lane_decode.cc

// How many registers an operand of this shape touches; `vlen_shift` is log2 of a register's bits.
inline uint32_t touched_registers(const InstructionTiming& instruction, OperandShape shape,
                                  const VectorState& state, int vlen_shift) {
  const uint64_t group_bits = uint64_t{state.vl} * state.sew_bits;
  auto of = [vlen_shift](uint64_t bits) {
    const uint64_t count = (bits + (uint64_t{1} << vlen_shift) - 1) >> vlen_shift;
    return static_cast<uint32_t>(std::max<uint64_t>(1, count));
  };
  switch (shape) {
    case OperandShape::None:
      return 0;
    case OperandShape::Mask:
    case OperandShape::Single:
      return 1;
    case OperandShape::Whole:
      return instruction.fields;
    case OperandShape::Group:
      return of(group_bits);
    case OperandShape::Wide:
      return of(group_bits * 2);
    case OperandShape::Half:
      return of(group_bits / 2);
    case OperandShape::Quarter:
      return of(group_bits / 4);
    case OperandShape::Eighth:
      return of(group_bits / 8);
    case OperandShape::ElementBits:
      return of(uint64_t{state.vl} * instruction.element_bits);
  }
  return 0;
}

}  // namespace npu
