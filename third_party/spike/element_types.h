// Conversions between the narrow element types and the words the arrays work on. Round to nearest, ties to
// even.
#pragma once

#include <cstdint>

#include "isa_generated.h"

namespace npu::engine {

inline constexpr uint32_t kCanonicalNan = 0x7fc00000;

inline bool is_float(Dtype dtype) {
  return dtype == Dtype::Float32 || dtype == Dtype::Float16 || dtype == Dtype::Bfloat16 ||
         dtype == Dtype::Float8E4m3fn || dtype == Dtype::Float8E5m2 || dtype == Dtype::Float64;
}

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat_to_float(uint16_t bits);
uint16_t float_to_bfloat(float value);
float fp8_e4m3fn_to_float(uint8_t bits);
uint8_t float_to_fp8_e4m3fn(float value);  // saturates, as torch 2.13 does
float fp8_e5m2_to_float(uint8_t bits);
uint8_t float_to_fp8_e5m2(float value);

}  // namespace npu::engine
