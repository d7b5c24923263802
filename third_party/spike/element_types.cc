#include "element_types.h"

#include <bit>
#include <cmath>

namespace npu::engine {

namespace {

// A small binary format with `exponent` and `mantissa` bits, IEEE-like (infinity and NaN in the top
// exponent).
float widen(uint32_t sign, uint32_t magnitude, uint32_t exponent_bits, uint32_t mantissa_bits) {
  const int32_t bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
  float value = exponent == 0
                    ? std::ldexp(static_cast<float>(mantissa), 1 - bias - static_cast<int32_t>(mantissa_bits))
                    : std::ldexp(static_cast<float>(mantissa + (1u << mantissa_bits)),
                                 static_cast<int32_t>(exponent) - bias - static_cast<int32_t>(mantissa_bits));
  return sign != 0 ? -value : value;
}

// Magnitude bits of a finite value in such a format, rounded to nearest even; may run into the top exponent.
uint32_t narrow(float magnitude, uint32_t exponent_bits, uint32_t mantissa_bits) {
  const int32_t bias = (1 << (exponent_bits - 1)) - 1;
  const int32_t least = 1 - bias;
  int32_t exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, least);
  // nearbyint rounds ties to even: the engine runs with round-to-nearest.
  const float scaled = std::ldexp(magnitude, static_cast<int32_t>(mantissa_bits) - exponent);
  auto digits = static_cast<uint32_t>(std::nearbyint(scaled));
  if (digits >> (mantissa_bits + 1) != 0) {
    digits >>= 1;
    ++exponent;
  }
  if (digits >> mantissa_bits == 0) return digits;  // subnormal or zero
  const uint32_t biased = static_cast<uint32_t>(exponent + bias);
  return (biased << mantissa_bits) + (digits - (1u << mantissa_bits));
}

}  // namespace

float half_to_float(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude > 0x7c00) return std::bit_cast<float>(kCanonicalNan);
  if (magnitude == 0x7c00) return (bits & 0x8000) != 0 ? -INFINITY : INFINITY;
  return widen(bits & 0x8000, magnitude, 5, 10);
}

uint16_t float_to_half(float value) {
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::fabs(value) >= 65520.0f) return sign | 0x7c00;
  return static_cast<uint16_t>(sign | narrow(std::fabs(value), 5, 10));
}

float bfloat_to_float(uint16_t bits) {
  const float value = std::bit_cast<float>(uint32_t{bits} << 16);
  return std::isnan(value) ? std::bit_cast<float>(kCanonicalNan) : value;
}

uint16_t float_to_bfloat(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fp8_e4m3fn_to_float(uint8_t bits) {
  if ((bits & 0x7f) == 0x7f) return std::bit_cast<float>(kCanonicalNan);
  return widen(bits & 0x80, bits & 0x7f, 4, 3);  // no infinity: the top exponent is an ordinary one
}

uint8_t float_to_fp8_e4m3fn(float value) {
  if (std::isnan(value)) return 0x7f;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::fabs(value) >= 448.0f) return sign | 0x7e;
  return static_cast<uint8_t>(sign | narrow(std::fabs(value), 4, 3));
}

float fp8_e5m2_to_float(uint8_t bits) { return half_to_float(static_cast<uint16_t>(bits << 8)); }

uint8_t float_to_fp8_e5m2(float value) {
  if (std::isnan(value)) return 0x7f;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::fabs(value) >= 61440.0f) return sign | 0x7c;
  return static_cast<uint8_t>(sign | narrow(std::fabs(value), 5, 2));
}

}  // namespace npu::engine
