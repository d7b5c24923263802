// Instruction bits -> what timing needs of them: RV64IMAFD + Zfh, RVV 1.0 (+ Zvfh, Zvfbfmin), our Xsfvcp
// forms. Encodings: RISC-V ISA manual (unprivileged), RVV 1.0 chapter "Vector Instruction Listing",
// docs/kernel_abi.md.
#include "lane_core.h"

namespace npu {
namespace {

using Shape = OperandShape;

uint32_t field(uint32_t bits, int low, int width) { return (bits >> low) & ((1u << width) - 1); }
uint32_t rd(uint32_t bits) { return field(bits, 7, 5); }
uint32_t rs1(uint32_t bits) { return field(bits, 15, 5); }
uint32_t rs2(uint32_t bits) { return field(bits, 20, 5); }
uint32_t rs3(uint32_t bits) { return field(bits, 27, 5); }
uint32_t funct3(uint32_t bits) { return field(bits, 12, 3); }
uint8_t fp(uint32_t reg) { return static_cast<uint8_t>(32 + reg); }
uint8_t x(uint32_t reg) { return static_cast<uint8_t>(reg); }

void source(InstructionTiming& t, uint32_t reg, Shape shape) {
  t.vector_sources[t.vector_source_count++] = {static_cast<uint8_t>(reg), shape};
}
void dest(InstructionTiming& t, uint32_t reg, Shape shape) {
  t.vector_dest = {static_cast<uint8_t>(reg), shape};
}

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

// Loads and stores, opcodes 0x07 and 0x27, with a vector element width in funct3.
void decode_vector_memory(InstructionTiming& t, uint32_t bits, bool store) {
  const uint32_t mop = field(bits, 26, 2), fields = field(bits, 29, 3) + 1, width = funct3(bits);
  const uint8_t eew = width == 0 ? 8 : static_cast<uint8_t>(8u << (width - 4));
  const bool indexed = mop & 1;
  Shape data = indexed ? Shape::Group : Shape::ElementBits;
  t.vector = true;
  t.op = store ? OpClass::VectorStore : OpClass::VectorLoad;
  t.element_bits = eew;
  t.fields = static_cast<uint8_t>(fields);
  t.scalar_sources[0] = x(rs1(bits));
  if (mop == 0 && rs2(bits) == 0x08) data = Shape::Whole;
  if (mop == 0 && rs2(bits) == 0x0b) data = Shape::Mask;
  if (mop != 0 || (fields > 1 && data != Shape::Whole)) {
    t.op = store ? OpClass::VectorStoreElements : OpClass::VectorLoadElements;
  }
  if (mop == 2) t.scalar_sources[1] = x(rs2(bits));
  if (indexed) source(t, rs2(bits), Shape::ElementBits);
  if (!field(bits, 25, 1)) source(t, 0, Shape::Mask);
  if (store) {
    source(t, rd(bits), data);
  } else {
    dest(t, rd(bits), data);
  }
}

// VXUNARY0, VFUNARY0: the source is narrower or wider than SEW as vs1 says.
void decode_float_conversion(InstructionTiming& t, uint32_t bits) {
  const uint32_t kind = rs1(bits) >> 3;  // 0 same width, 1 widening, 2 and 3 narrowing
  t.op = OpClass::VectorFp;
  source(t, rs2(bits), kind >= 2 ? Shape::Wide : Shape::Group);
  dest(t, rd(bits), kind == 1 ? Shape::Wide : Shape::Group);
}

void decode_integer_extension(InstructionTiming& t, uint32_t bits) {
  const uint32_t kind = rs1(bits) >> 1;  // 1: eighth, 2: quarter, 3: half
  source(t, rs2(bits),
         kind == 1   ? Shape::Eighth
         : kind == 2 ? Shape::Quarter
         : kind == 3 ? Shape::Half
                     : Shape::Group);
  dest(t, rd(bits), Shape::Group);
}

// The operands of the common forms: vs2 and vs1 (or a scalar) to vd.
struct Form {
  Shape vs2 = Shape::Group, vs1 = Shape::Group, vd = Shape::Group;
  bool reads_dest = false;
  bool scalar_dest = false;
};

// OPIVV, OPIVX, OPIVI
OpClass integer_form(uint32_t funct6, bool vector_operand, bool immediate, Form& form) {
  switch (funct6) {
    case 0x0c:  // vrgather
      return OpClass::VectorGather;
    case 0x0e:  // vslideup, or vrgatherei16.vv
      return vector_operand ? OpClass::VectorGather : OpClass::VectorSlide;
    case 0x0f:
      return OpClass::VectorSlide;
    case 0x27:  // vsmul, or whole-register move
      return immediate ? OpClass::VectorAlu : OpClass::VectorMul;
    case 0x2c:
    case 0x2d:
    case 0x2e:
    case 0x2f:  // narrowing shifts and clips
      form.vs2 = Shape::Wide;
      return OpClass::VectorAlu;
    case 0x30:
    case 0x31:  // widening sums
      form.vs1 = Shape::Single;
      form.vd = Shape::Single;
      return OpClass::VectorReduce;
    case 0x35:  // vwsll
      form.vd = Shape::Wide;
      return OpClass::VectorAlu;
    default:
      if (funct6 == 0x11 || funct6 == 0x13 || (funct6 >= 0x18 && funct6 <= 0x1f)) form.vd = Shape::Mask;
      return OpClass::VectorAlu;
  }
}

// OPMVV, OPMVX
OpClass multiply_form(uint32_t funct6, bool vector_operand, Form& form) {
  if (funct6 <= 0x07 && vector_operand) {
    form.vs1 = form.vd = Shape::Single;
    return OpClass::VectorReduce;
  }
  if (funct6 == 0x0e || funct6 == 0x0f) return OpClass::VectorSlide;  // vslide1up, vslide1down
  if (funct6 == 0x17) {                                               // vcompress
    form.vs1 = Shape::Mask;
    return OpClass::VectorGather;
  }
  if (funct6 >= 0x18 && funct6 <= 0x1f) {  // mask logic
    form.vs2 = form.vs1 = form.vd = Shape::Mask;
    return OpClass::VectorAlu;
  }
  if (funct6 >= 0x20 && funct6 <= 0x23) return OpClass::VectorDiv;
  if (funct6 >= 0x24 && funct6 <= 0x2f) {
    form.reads_dest = funct6 >= 0x28;
    return OpClass::VectorMul;
  }
  if (funct6 >= 0x30 && funct6 <= 0x37) {  // vwadd, vwsub, and the forms with a wide first source
    form.vd = Shape::Wide;
    if (funct6 >= 0x34) form.vs2 = Shape::Wide;
    return OpClass::VectorAlu;
  }
  if (funct6 >= 0x38) {
    form.vd = Shape::Wide;
    form.reads_dest = funct6 >= 0x3c;
    return OpClass::VectorMul;
  }
  return OpClass::VectorAlu;  // averaging add and subtract
}

// OPFVV, OPFVF
OpClass float_form(uint32_t funct6, bool vector_operand, Form& form) {
  const bool reduction = vector_operand && (funct6 == 0x01 || funct6 == 0x03 || funct6 == 0x05 ||
                                            funct6 == 0x07 || funct6 == 0x31 || funct6 == 0x33);
  if (reduction) {
    form.vs1 = form.vd = Shape::Single;
    return (funct6 & 0x0f) == 0x03 ? OpClass::VectorReduceOrdered : OpClass::VectorReduce;
  }
  if (funct6 == 0x0e || funct6 == 0x0f) return OpClass::VectorSlide;
  if (funct6 >= 0x18 && funct6 <= 0x1f) {
    form.vd = Shape::Mask;
    return OpClass::VectorFp;
  }
  if (funct6 == 0x20 || funct6 == 0x21) return OpClass::VectorFpDiv;
  if (funct6 >= 0x28 && funct6 <= 0x2f) form.reads_dest = true;
  if (funct6 >= 0x30) {
    form.vd = Shape::Wide;
    if (funct6 == 0x34 || funct6 == 0x36) form.vs2 = Shape::Wide;
    form.reads_dest = funct6 >= 0x3b;
  }
  const bool move = (funct6 >= 0x04 && funct6 <= 0x0a) || funct6 == 0x17;  // min, max, sign injection, merge
  return move ? OpClass::VectorAlu : OpClass::VectorFp;
}

// Unary groups, whose second source field selects the operation. True if it was one.
bool decode_unary(InstructionTiming& t, uint32_t bits, uint32_t funct6, uint32_t f3) {
  const bool vv = f3 == 1 || f3 == 2;
  const bool floating = f3 == 1 || f3 == 5;
  if (funct6 == 0x10 && vv) {  // vmv.x.s, vcpop, vfirst, vfmv.f.s
    t.op = OpClass::VectorToScalar;
    const bool element = floating || rs1(bits) == 0;
    source(t, rs2(bits), element ? Shape::Single : Shape::Mask);
    t.scalar_dest = floating ? fp(rd(bits)) : x(rd(bits));
    return true;
  }
  if (funct6 == 0x10) {  // vmv.s.x, vfmv.s.f
    t.op = OpClass::VectorAlu;
    t.scalar_sources[0] = floating ? fp(rs1(bits)) : x(rs1(bits));
    dest(t, rd(bits), Shape::Single);
    return true;
  }
  if (funct6 == 0x12 && vv) {
    floating ? decode_float_conversion(t, bits) : decode_integer_extension(t, bits);
    return true;
  }
  if (funct6 == 0x13 && f3 == 1) {  // square root, estimates, classify
    t.op = rs1(bits) == 0 ? OpClass::VectorFpDiv : OpClass::VectorFp;
    source(t, rs2(bits), Shape::Group);
    dest(t, rd(bits), Shape::Group);
    return true;
  }
  if (funct6 == 0x14 && f3 == 2) {  // vmsbf, vmsof, vmsif, viota, vid
    const bool iota = rs1(bits) >= 0x10;
    if (rs1(bits) != 0x11) source(t, rs2(bits), Shape::Mask);
    dest(t, rd(bits), iota ? Shape::Group : Shape::Mask);
    return true;
  }
  return false;
}

void decode_op_v(InstructionTiming& t, uint32_t bits) {
  const uint32_t funct6 = field(bits, 26, 6), f3 = funct3(bits);
  const bool vector_operand = f3 <= 2, immediate = f3 == 3, floating = f3 == 1 || f3 == 5;
  if (f3 == 7) {  // vsetvli, vsetivli, vsetvl
    t.op = OpClass::VectorConfig;
    t.branch = field(bits, 30, 2) == 3 ? BranchKind::DirectConfig : BranchKind::IndirectConfig;
    t.scalar_dest = x(rd(bits));
    if (field(bits, 30, 2) != 3) t.scalar_sources[0] = x(rs1(bits));
    if (field(bits, 30, 2) == 2) t.scalar_sources[1] = x(rs2(bits));
    return;
  }
  t.vector = true;
  t.op = OpClass::VectorAlu;
  const bool masked = !field(bits, 25, 1);
  if (decode_unary(t, bits, funct6, f3)) {
    if (masked) source(t, 0, Shape::Mask);
    return;
  }
  if (funct6 == 0x27 && immediate) {  // vmv<n>r.v
    t.fields = static_cast<uint8_t>(rs1(bits) + 1);
    source(t, rs2(bits), Shape::Whole);
    dest(t, rd(bits), Shape::Whole);
    return;
  }
  Form form;
  if (floating) {
    t.op = float_form(funct6, vector_operand, form);
  } else if (f3 == 2 || f3 == 6) {
    t.op = multiply_form(funct6, vector_operand, form);
  } else {
    t.op = integer_form(funct6, vector_operand, immediate, form);
  }
  const bool move = funct6 == 0x17 && !masked && f3 != 2;  // vmv.v.*, vfmv.v.f read no vs2
  if (!move) source(t, rs2(bits), form.vs2);
  if (vector_operand) source(t, rs1(bits), form.vs1);
  if (!vector_operand && !immediate) t.scalar_sources[0] = floating ? fp(rs1(bits)) : x(rs1(bits));
  if (masked) source(t, 0, Shape::Mask);
  if (form.reads_dest) source(t, rd(bits), form.vd);
  dest(t, rd(bits), form.vd);
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
    source(t, rs2(bits), Shape::Group);
    dest(t, rd(bits), Shape::Group);
  } else if (high == 2) {  // sf.vc.iv: array pushes
    t.element_code = static_cast<uint8_t>(rs1(bits));
    t.op = opcode == 0 ? OpClass::ArrayWeights : OpClass::ArrayInputs;
    source(t, rs2(bits), Shape::Group);
    t.arrays = static_cast<uint8_t>(opcode == 0 ? 1u << (rd(bits) & 7) : rd(bits));
    t.first_weights = opcode == 0 && (rd(bits) & 16) != 0;
  } else {  // sf.vc.v.i: lane number, array pop
    t.op = opcode == 1 ? OpClass::ArrayPop : OpClass::LaneId;
    if (opcode == 1) t.arrays = static_cast<uint8_t>(1u << (rs2(bits) & 7));
    dest(t, rd(bits), Shape::Group);
  }
}

}  // namespace

InstructionTiming LaneCore::decode(uint32_t bits) {
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
