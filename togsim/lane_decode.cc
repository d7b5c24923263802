// Instruction bits -> what timing needs of them: RV64IMAFD + Zfh and our Xsfvcp forms; vector instructions
// are in vector_decode.cc. Encodings: RISC-V ISA manual (unprivileged), docs/kernel_abi.md.
#include "decode_fields.h"

namespace npu {
namespace {

// Scalar floating point: which of rd, rs1 are integer registers depends on funct7 alone.
void decode_op_fp(InstructionTiming& t, uint32_t bits) {
  const uint32_t funct5 = field(bits, 27, 5);
  t.op = OpClass::FpAlu;
  t.scalar_dest = fp(rd(bits));
  t.scalar_sources = {fp(rs1(bits)), 0, 0};
  switch (funct5) {
    case 0x03:  // fdiv
      t.op = OpClass::FpDiv;
      t.scalar_sources[1] = fp(rs2(bits));
      break;
    case 0x0b:  // fsqrt
      t.op = OpClass::FpDiv;
      break;
    case 0x04:  // fsgnj
    case 0x05:  // fmin, fmax
      t.op = OpClass::FpMove;
      t.scalar_sources[1] = fp(rs2(bits));
      break;
    case 0x14:  // compare
      t.scalar_dest = x(rd(bits));
      t.scalar_sources[1] = fp(rs2(bits));
      break;
    case 0x18:  // fcvt to integer
      t.scalar_dest = x(rd(bits));
      break;
    case 0x1c:  // fmv.x, fclass
      t.op = OpClass::FpMove;
      t.scalar_dest = x(rd(bits));
      break;
    case 0x1a:  // fcvt from integer
      t.scalar_sources[0] = x(rs1(bits));
      break;
    case 0x1e:  // fmv from integer
      t.op = OpClass::FpMove;
      t.scalar_sources[0] = x(rs1(bits));
      break;
    case 0x08:  // fcvt between formats
      break;
    default:  // fadd, fsub, fmul
      t.scalar_sources[1] = fp(rs2(bits));
  }
}

// Opcode 0x5b. Bits 31:28 are 0 for x and i, 2 for iv; bit 25 set = no result; bits 27:26 the opcode.
void decode_custom(InstructionTiming& t, uint32_t bits) {
  const uint32_t high = field(bits, 28, 4), opcode = field(bits, 26, 2), f3 = funct3(bits);
  const bool result = !field(bits, 25, 1);
  t.op = OpClass::Dma;
  if (f3 == 4 && high == 0 && !result) {  // sf.vc.x
    t.scalar_sources[0] = x(rs1(bits));
    return;
  }
  if (f3 != 3) return;
  t.vector = true;
  if (high == 2 && result) {  // sf.vc.v.iv: SFU, XLU
    t.op = opcode == 3 && rs1(bits) != 0 ? OpClass::Xlu : OpClass::Sfu;
    source(t, rs2(bits), OperandShape::Group);
    dest(t, rd(bits), OperandShape::Group);
  } else if (high == 2) {  // sf.vc.iv: array pushes
    t.element_code = static_cast<uint8_t>(rs1(bits));
    t.op = opcode == 0 ? OpClass::ArrayWeights : OpClass::ArrayInputs;
    source(t, rs2(bits), OperandShape::Group);
    t.arrays = static_cast<uint8_t>(opcode == 0 ? 1u << (rd(bits) & 7) : rd(bits));
    t.first_weights = opcode == 0 && (rd(bits) & 16) != 0;
  } else {  // sf.vc.v.i: lane number, array pop
    t.op = opcode == 1 ? OpClass::ArrayPop : OpClass::LaneId;
    if (opcode == 1) t.arrays = static_cast<uint8_t>(1u << (rs2(bits) & 7));
    dest(t, rd(bits), OperandShape::Group);
  }
}

}  // namespace

InstructionTiming decode_timing(uint32_t bits) {
  InstructionTiming t;
  const uint32_t f3 = funct3(bits);
  const bool vector_width = f3 == 0 || f3 >= 5;
  auto integer = [&](OpClass op, bool two_sources) {
    t.op = op;
    t.scalar_dest = x(rd(bits));
    t.scalar_sources = {x(rs1(bits)), two_sources ? x(rs2(bits)) : uint8_t{0}, 0};
  };
  switch (bits & 0x7f) {
    case 0x03:  // load
      integer(OpClass::ScalarLoad, false);
      break;
    case 0x07:
      if (vector_width) {
        decode_vector_memory(t, bits, false);
      } else {
        integer(OpClass::ScalarLoad, false);
        t.scalar_dest = fp(rd(bits));
      }
      break;
    case 0x13:
    case 0x1b:
      integer(OpClass::IntAlu, false);
      break;
    case 0x17:
    case 0x37:  // auipc, lui
      t.scalar_dest = x(rd(bits));
      break;
    case 0x23:
      t.op = OpClass::ScalarStore;
      t.scalar_sources = {x(rs1(bits)), x(rs2(bits)), 0};
      break;
    case 0x27:
      if (vector_width) {
        decode_vector_memory(t, bits, true);
      } else {
        t.op = OpClass::ScalarStore;
        t.scalar_sources = {x(rs1(bits)), fp(rs2(bits)), 0};
      }
      break;
    case 0x2f:
      integer(OpClass::ScalarLoad, true);
      break;
    case 0x33:
    case 0x3b:
      integer(field(bits, 25, 7) != 1 ? OpClass::IntAlu : f3 < 4 ? OpClass::IntMul : OpClass::IntDiv, true);
      break;
    case 0x43:
    case 0x47:
    case 0x4b:
    case 0x4f:
      t.op = OpClass::FpAlu;
      t.scalar_dest = fp(rd(bits));
      t.scalar_sources = {fp(rs1(bits)), fp(rs2(bits)), fp(rs3(bits))};
      break;
    case 0x53:
      decode_op_fp(t, bits);
      break;
    case 0x57:
      decode_op_v(t, bits);
      break;
    case 0x5b:
      decode_custom(t, bits);
      break;
    case 0x63:
      t.op = OpClass::Branch;
      t.branch = BranchKind::Conditional;
      t.scalar_sources = {x(rs1(bits)), x(rs2(bits)), 0};
      break;
    case 0x67:
      integer(OpClass::Branch, false);
      t.branch = rd(bits) == 1                     ? BranchKind::IndirectCall
                 : rd(bits) == 0 && rs1(bits) == 1 ? BranchKind::Return
                                                   : BranchKind::Indirect;
      break;
    case 0x6f:
      t.op = OpClass::Branch;
      t.branch = rd(bits) == 1 ? BranchKind::Call : BranchKind::Jump;
      t.scalar_dest = x(rd(bits));
      break;
    case 0x73:
      integer(OpClass::Csr, false);
      if (f3 >= 4) t.scalar_sources[0] = 0;  // immediate forms
      break;
    default:
      break;
  }
  return t;
}

}  // namespace npu
