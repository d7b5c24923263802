#include "native/instruction.h"

#include <string_view>

namespace npu::engine {

namespace {

struct Stem {
  std::string_view name;  // Spike's name without the operand suffix
  Op op;
  bool reads_destination = false;
};

constexpr Stem kElementwise[] = {
    {"vadd", Op::Add},
    {"vsub", Op::Sub},
    {"vrsub", Op::Rsub},
    {"vand", Op::And},
    {"vor", Op::Or},
    {"vxor", Op::Xor},
    {"vminu", Op::Minu},
    {"vmin", Op::Min},
    {"vmaxu", Op::Maxu},
    {"vmax", Op::Max},
    {"vsll", Op::Sll},
    {"vsrl", Op::Srl},
    {"vsra", Op::Sra},
    {"vmul", Op::Mul},
    {"vmulh", Op::Mulh},
    {"vmulhu", Op::Mulhu},
    {"vdivu", Op::Divu},
    {"vdiv", Op::Div},
    {"vremu", Op::Remu},
    {"vrem", Op::Rem},
    {"vmv_v", Op::Move},
    {"vfmv_v", Op::Move},
    {"vmacc", Op::Macc, true},
    {"vnmsac", Op::Nmsac, true},
    {"vmadd", Op::Madd, true},
    {"vnmsub", Op::Nmsub, true},
    {"vfadd", Op::Fadd},
    {"vfsub", Op::Fsub},
    {"vfrsub", Op::Frsub},
    {"vfmul", Op::Fmul},
    {"vfdiv", Op::Fdiv},
    {"vfrdiv", Op::Frdiv},
    {"vfmin", Op::Fmin},
    {"vfmax", Op::Fmax},
    {"vfsgnj", Op::Fsgnj},
    {"vfsgnjn", Op::Fsgnjn},
    {"vfsgnjx", Op::Fsgnjx},
    {"vfmacc", Op::Fmacc, true},
    {"vfnmacc", Op::Fnmacc, true},
    {"vfmsac", Op::Fmsac, true},
    {"vfnmsac", Op::Fnmsac, true},
    {"vfmadd", Op::Fmadd, true},
    {"vfnmadd", Op::Fnmadd, true},
    {"vfmsub", Op::Fmsub, true},
    {"vfnmsub", Op::Fnmsub, true},
};

constexpr Stem kCompare[] = {
    {"vmseq", Op::Seq}, {"vmsne", Op::Sne},   {"vmsltu", Op::Sltu}, {"vmslt", Op::Slt}, {"vmsleu", Op::Sleu},
    {"vmsle", Op::Sle}, {"vmsgtu", Op::Sgtu}, {"vmsgt", Op::Sgt},   {"vmfeq", Op::Feq}, {"vmfne", Op::Fne},
    {"vmflt", Op::Flt}, {"vmfle", Op::Fle},   {"vmfgt", Op::Fgt},   {"vmfge", Op::Fge},
};

constexpr Stem kUnary[] = {
    {"vfsqrt_v", Op::Fsqrt},
    {"vfcvt_xu_f_v", Op::FcvtXuF},
    {"vfcvt_x_f_v", Op::FcvtXF},
    {"vfcvt_f_xu_v", Op::FcvtFXu},
    {"vfcvt_f_x_v", Op::FcvtFX},
    {"vfcvt_rtz_xu_f_v", Op::FcvtRtzXuF},
    {"vfcvt_rtz_x_f_v", Op::FcvtRtzXF},
};

struct Other {
  std::string_view name;
  NativeKind kind;
  Conversion conversion = Conversion::Count;
  uint8_t variant = 0;
  ScalarOperand operand = ScalarOperand::None;
};

constexpr Other kOthers[] = {
    {"vmerge_vvm", NativeKind::Merge, Conversion::Count, 0, ScalarOperand::Vector},
    {"vmerge_vxm", NativeKind::Merge, Conversion::Count, 0, ScalarOperand::Integer},
    {"vmerge_vim", NativeKind::Merge, Conversion::Count, 0, ScalarOperand::Immediate},
    {"vfmerge_vfm", NativeKind::Merge, Conversion::Count, 0, ScalarOperand::Float},
    {"vmandn_mm", NativeKind::MaskLogic, Conversion::Count, 0},
    {"vmand_mm", NativeKind::MaskLogic, Conversion::Count, 1},
    {"vmor_mm", NativeKind::MaskLogic, Conversion::Count, 2},
    {"vmxor_mm", NativeKind::MaskLogic, Conversion::Count, 3},
    {"vmorn_mm", NativeKind::MaskLogic, Conversion::Count, 4},
    {"vmnand_mm", NativeKind::MaskLogic, Conversion::Count, 5},
    {"vmnor_mm", NativeKind::MaskLogic, Conversion::Count, 6},
    {"vmxnor_mm", NativeKind::MaskLogic, Conversion::Count, 7},
    {"vfwcvt_f_f_v", NativeKind::Widen, Conversion::FloatWiden},
    {"vfwcvtbf16_f_f_v", NativeKind::Widen, Conversion::BfloatWiden},
    {"vfncvt_f_f_w", NativeKind::Narrow, Conversion::FloatNarrow},
    {"vfncvtbf16_f_f_w", NativeKind::Narrow, Conversion::BfloatNarrow},
    {"vzext_vf2", NativeKind::Extend, Conversion::ZextHalf, 2},
    {"vsext_vf2", NativeKind::Extend, Conversion::SextHalf, 2},
    {"vzext_vf4", NativeKind::Extend, Conversion::ZextQuarter, 4},
    {"vsext_vf4", NativeKind::Extend, Conversion::SextQuarter, 4},
    {"vzext_vf8", NativeKind::Extend, Conversion::ZextEighth, 8},
    {"vsext_vf8", NativeKind::Extend, Conversion::SextEighth, 8},
    {"vslideup_vx", NativeKind::SlideUp, Conversion::Count, 0, ScalarOperand::Integer},
    {"vslideup_vi", NativeKind::SlideUp, Conversion::Count, 0, ScalarOperand::UnsignedImmediate},
    {"vslidedown_vx", NativeKind::SlideDown, Conversion::Count, 0, ScalarOperand::Integer},
    {"vslidedown_vi", NativeKind::SlideDown, Conversion::Count, 0, ScalarOperand::UnsignedImmediate},
    {"vrgather_vx", NativeKind::Splat, Conversion::Count, 0, ScalarOperand::Integer},
    {"vrgather_vi", NativeKind::Splat, Conversion::Count, 0, ScalarOperand::UnsignedImmediate},
    {"vid_v", NativeKind::Identity},
    {"vmv1r_v", NativeKind::MoveRegisters, Conversion::Count, 1},
    {"vmv2r_v", NativeKind::MoveRegisters, Conversion::Count, 2},
    {"vmv4r_v", NativeKind::MoveRegisters, Conversion::Count, 4},
    {"vmv8r_v", NativeKind::MoveRegisters, Conversion::Count, 8},
};

ScalarOperand operand_of(std::string_view suffix, bool shift) {
  if (suffix == "vv" || suffix == "v") return ScalarOperand::Vector;
  if (suffix == "vx" || suffix == "x") return ScalarOperand::Integer;
  if (suffix == "vi" || suffix == "i")
    return shift ? ScalarOperand::UnsignedImmediate : ScalarOperand::Immediate;
  if (suffix == "vf" || suffix == "f") return ScalarOperand::Float;
  return ScalarOperand::None;
}

}  // namespace

NativeInstruction native_instruction(const char* name) {
  const std::string_view full(name);
  NativeInstruction found;
  found.floating = full[1] == 'f' || full.substr(0, 3) == "vmf";
  for (const Other& other : kOthers)
    if (full == other.name) {
      found.kind = other.kind;
      found.conversion = other.conversion;
      found.variant = other.variant;
      found.operand = other.operand;
      return found;
    }
  for (const Stem& stem : kUnary)
    if (full == stem.name) {
      found.kind = NativeKind::Elementwise;
      found.op = stem.op;
      return found;
    }
  const size_t cut = full.rfind('_');
  const std::string_view start = full.substr(0, cut), suffix = full.substr(cut + 1);
  for (const Stem& stem : kElementwise)
    if (start == stem.name) {
      const bool shift = stem.op == Op::Sll || stem.op == Op::Srl || stem.op == Op::Sra;
      found.operand = operand_of(suffix, shift);
      if (found.operand == ScalarOperand::None) return found;
      found.kind = NativeKind::Elementwise;
      found.op = stem.op;
      found.reads_destination = stem.reads_destination;
      return found;
    }
  for (const Stem& stem : kCompare)
    if (start == stem.name) {
      found.operand = operand_of(suffix, false);
      if (found.operand == ScalarOperand::None) return found;
      found.kind = NativeKind::Compare;
      found.op = stem.op;
      return found;
    }
  return found;
}

}  // namespace npu::engine
