// All-lane bodies of the hot vector instructions, one set per x86-64 level. Every body gives the bits of
// Spike's handler for round-to-nearest, with flags not kept.
//
// A register of all lanes is one contiguous row of `lanes * vreg_bytes` bytes (see engine_core.h); a body
// works on such rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "isa_generated.h"

namespace npu::engine {

enum class Op : uint8_t {
  // d = f(d, s2, s1), element by element at SEW
  Add,
  Sub,
  Rsub,
  And,
  Or,
  Xor,
  Minu,
  Min,
  Maxu,
  Max,
  Sll,
  Srl,
  Sra,
  Mul,
  Mulh,
  Mulhu,
  Divu,
  Div,
  Remu,
  Rem,
  Move,  // s1
  Macc,
  Nmsac,
  Madd,
  Nmsub,
  Fadd,
  Fsub,
  Frsub,
  Fmul,
  Fdiv,
  Frdiv,
  Fmin,
  Fmax,
  Fsgnj,
  Fsgnjn,
  Fsgnjx,
  Fmacc,
  Fnmacc,
  Fmsac,
  Fnmsac,
  Fmadd,
  Fnmadd,
  Fmsub,
  Fnmsub,
  // d = f(s2)
  Fsqrt,
  FcvtXuF,
  FcvtXF,
  FcvtFXu,
  FcvtFX,
  FcvtRtzXuF,
  FcvtRtzXF,
  // one bit per element, packed; the number of elements is a multiple of 8
  Seq,
  Sne,
  Sltu,
  Slt,
  Sleu,
  Sle,
  Sgtu,
  Sgt,
  Feq,
  Fne,
  Flt,
  Fle,
  Fgt,
  Fge,
  Count,
};

// From one element width to another.
enum class Conversion : uint8_t {
  ZextHalf,  // SEW/2 -> SEW
  SextHalf,
  ZextQuarter,  // SEW/4 -> SEW
  SextQuarter,
  ZextEighth,
  SextEighth,
  FloatWiden,  // f16 -> f32, f32 -> f64; by SEW of the source
  BfloatWiden,
  FloatNarrow,  // f32 -> f16, f64 -> f32; by SEW of the result
  BfloatNarrow,
  Count,
};

inline constexpr size_t kWidths = 4;  // SEW 8, 16, 32, 64 by log2 of its bytes

using BinaryBody = void (*)(uint8_t* d, const uint8_t* s2, const uint8_t* s1, size_t elements);
using ScalarBody = void (*)(uint8_t* d, const uint8_t* s2, uint64_t s1, size_t elements);
// `count` elements of every lane: from a row whose lanes are `from_stride` elements apart to one with
// `to_stride`.
using ConvertBody = void (*)(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride,
                             size_t lanes, size_t count);

struct MergeArguments {
  uint8_t* to;          // row that changes where the mask is set
  const uint8_t* from;  // row
  const uint8_t* mask;  // row of v0, or null: every element
  size_t lanes;
  size_t row_stride;  // bytes from lane to lane
  size_t first_bit;   // mask bit of element 0
  size_t count;       // elements of every lane
};

struct Bodies {
  std::array<std::array<BinaryBody, kWidths>, static_cast<size_t>(Op::Count)> vector = {};
  std::array<std::array<ScalarBody, kWidths>, static_cast<size_t>(Op::Count)> scalar = {};
  std::array<std::array<ConvertBody, kWidths>, static_cast<size_t>(Conversion::Count)> convert =
      {};  // by SEW
  std::array<void (*)(const MergeArguments&), kWidths> merge = {};
  // to[l] = low[l] where the period's mask byte is 0xff, else high[l]; `period` divides `bytes`.
  void (*blend)(uint8_t* to, const uint8_t* low, const uint8_t* high, const uint8_t* mask, size_t period,
                size_t bytes) = nullptr;
  // element `index` of every lane into all elements of the lane
  std::array<void (*)(uint8_t* to, const uint8_t* from, size_t index, size_t lanes, size_t elements), kWidths>
      splat = {};

  // Element r of lane c, at lane[c] + offset + r * size, is column c of row r, at rows + r * row_stride + c *
  // size.
  std::array<void (*)(uint8_t* const* lane, size_t offset, const uint8_t* rows, size_t row_stride,
                      size_t row_count, size_t lane_count),
             kWidths>
      rows_to_lanes = {};
  std::array<void (*)(uint8_t* const* lane, size_t offset, uint8_t* rows, size_t row_stride, size_t row_count,
                      size_t lane_count),
             kWidths>
      lanes_to_rows = {};
  // Row of f16 or bf16 to f32 and back.
  void (*halves_to_floats)(const uint8_t* from, float* to, size_t count) = nullptr;
  void (*floats_to_halves)(const float* from, uint8_t* to, size_t count) = nullptr;
  void (*bfloats_to_floats)(const uint8_t* from, float* to, size_t count) = nullptr;
  void (*floats_to_bfloats)(const float* from, uint8_t* to, size_t count) = nullptr;

  void (*special_function)(SfuFunction function, const float* values, size_t count, float* results) = nullptr;
  // results[i][j] = sum over k < rows of inputs[i][k] * weights[k][j], fused, in the order of k, from +0.
  void (*multiply_floats)(const float* inputs, const float* weights, size_t rows, size_t lanes, size_t count,
                          float* results) = nullptr;
  void (*multiply_integers)(const uint32_t* inputs, const uint32_t* weights, size_t rows, size_t lanes,
                            size_t count, uint32_t* results) = nullptr;
};

// The set of an x86-64 level (2, 3 or 4), or of the best level this machine has (0). Throws
// std::invalid_argument for a level that the machine does not have.
const Bodies& bodies(uint32_t level);

}  // namespace npu::engine
