// Instructions to micro-operations, as gem5's RISC-V decoder splits them: one per vector register of the
// result, one per element of a strided or indexed access. Every vector micro-operation also reads its
// destination (the tail stays).
#include <algorithm>
#include <bit>

#include "minor_pipeline.h"

namespace npu {

std::vector<MinorPipeline::MicroOp> MinorPipeline::micro_ops(const InstructionTiming& t,
                                                             const VectorState& state,
                                                             uint64_t address) const {
  std::vector<MicroOp> ops;
  MicroOp common;
  for (uint8_t reg : t.scalar_sources) common.read(reg);
  if (t.scalar_dest) common.dest = t.scalar_dest;
  switch (t.op) {
    case OpClass::IntMul:
      common.unit = kMul;
      break;
    case OpClass::IntDiv:
      common.unit = kDiv;
      break;
    case OpClass::ScalarLoad:
    case OpClass::ScalarStore:
      common.unit = kMemory;
      common.load = t.op == OpClass::ScalarLoad;
      common.store = !common.load;
      common.address = address;
      common.bytes = 8;
      break;
    case OpClass::IntAlu:
    case OpClass::Branch:
    case OpClass::Csr:
    case OpClass::Dma:
      break;
    default:
      common.unit = kVector;
  }
  if (!t.vector || state.vl == 0) return {common};

  const bool memory = t.op >= OpClass::VectorLoad && t.op <= OpClass::VectorStoreElements;
  const bool elements = t.op == OpClass::VectorLoadElements || t.op == OpClass::VectorStoreElements;
  const OperandShape dest = t.vector_dest.shape;
  auto span = [&](OperandShape shape) {
    return touched_registers(t, shape, state, std::countr_zero(vlen_bits_));
  };
  uint32_t widest = span(dest);
  for (uint8_t s = 0; s < t.vector_source_count; ++s)
    widest = std::max(widest, span(t.vector_sources[s].shape));
  const uint32_t count = elements ? state.vl * t.fields : widest;
  const bool mask_sources =
      std::all_of(t.vector_sources.begin(), t.vector_sources.begin() + t.vector_source_count,
                  [](const VectorOperand& s) { return s.shape == OperandShape::Mask; });
  const bool mask_result = dest == OperandShape::Mask && !memory && !mask_sources;  // a comparison
  // Inside a group, a slide takes every source register up to its own, a gather all of them.
  auto passes = [&](uint32_t i) {
    return t.op == OpClass::VectorSlide ? i + 1 : t.op == OpClass::VectorGather ? count : 1;
  };
  const uint32_t element_bytes =
      std::max<uint32_t>(1, (t.element_bits ? t.element_bits : state.sew_bits) / 8);

  for (uint32_t i = 0; i < count; ++i) {
    MicroOp op = common;
    // Register i of an operand that spans fewer registers than there are micro-operations.
    auto reg = [&](const VectorOperand& operand) {
      const uint32_t number = operand.reg + i * span(operand.shape) / count;
      return static_cast<uint8_t>(kVectorBase + std::min(number, 31u));
    };
    for (uint8_t s = 0; s < t.vector_source_count; ++s) op.read(reg(t.vector_sources[s]));
    if (dest != OperandShape::None) {
      op.dest = mask_result ? static_cast<uint8_t>(kTemporaryBase + i % 8) : reg(t.vector_dest);
      if (!mask_result && dest != OperandShape::Whole) op.read(op.dest);
    }
    if (memory) {
      op.unit = kMemory;
      op.store = dest == OperandShape::None;
      op.load = !op.store;
      op.bytes = elements ? element_bytes : std::min(vlen_bits_ / 8, state.vl * element_bytes);
      if (dest == OperandShape::Whole) op.bytes = vlen_bits_ / 8;
      op.address = address + uint64_t{i} * (elements ? element_bytes : vlen_bits_ / 8);
    }
    ops.insert(ops.end(), passes(i), op);
  }
  if (mask_result) {  // the parts are merged into one register
    MicroOp merge;
    merge.unit = kVector;
    for (uint32_t i = 0; i < std::min(count, 5u); ++i) merge.read(static_cast<uint8_t>(kTemporaryBase + i));
    merge.dest = static_cast<uint8_t>(kVectorBase + t.vector_dest.reg);
    ops.push_back(merge);
  }
  return ops;
}

}  // namespace npu
