// Vector instructions' bits -> what timing needs of them: RVV 1.0 (+ Zvfh, Zvfbfmin). Encodings: RVV 1.0
// chapter "Vector Instruction Listing".
#include "decode_fields.h"

namespace npu {
namespace {

using Shape = OperandShape;

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

}  // namespace

// Loads and stores with a vector element width in funct3.
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

}  // namespace npu
