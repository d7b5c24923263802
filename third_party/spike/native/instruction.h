// Which vector instructions have an all-lane body, and how they use it.
#pragma once

#include <cstdint>

#include "native/bodies.h"

namespace npu::engine {

enum class NativeKind : uint8_t {
  None,         // Spike's handler, lane by lane
  Elementwise,  // body of `op`
  Compare,      // body of `op`, bits into a mask register
  Merge,        // vmerge, vfmerge
  MaskLogic,    // vmand.mm and its like; `variant` says which
  Widen,        // body of `conversion`; SEW of the source
  Extend,       // body of `conversion`; SEW of the result; `variant`: the factor
  Narrow,       // body of `conversion`; SEW of the result
  NarrowShift,  // vnsrl, vnsra with a scalar shift; `variant`: 1 is arithmetic
  SlideUp,
  SlideDown,
  Splat,          // vrgather with one index
  Identity,       // vid
  MoveRegisters,  // vmv<n>r; `variant`: n
  FirstElement,   // vmv.s.x, vfmv.s.f
};

enum class ScalarOperand : uint8_t { None, Vector, Integer, Immediate, UnsignedImmediate, Float };

struct NativeInstruction {
  NativeKind kind = NativeKind::None;
  Op op = Op::Count;
  Conversion conversion = Conversion::Count;
  ScalarOperand operand = ScalarOperand::None;
  uint8_t variant = 0;
  bool reads_destination = false;
  bool floating = false;  // depends on the rounding mode
};

// By Spike's name of the instruction.
NativeInstruction native_instruction(const char* name);

}  // namespace npu::engine
