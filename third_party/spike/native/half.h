// f16 and bf16 to f32 and back, rows of them. Round to nearest even, every NaN canonical. Included by every
// level.
#pragma once

#include "native/element.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace npu::engine::NPU_LEVEL {
namespace {

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude > 0x7c00) return bits_as<float>(Bits<float>::kNan);
  if (magnitude == 0x7c00) return bits_as<float>(sign | 0x7f800000);
  // A subnormal times 2^-24 is exact; others only change the bias.
  if (magnitude < 0x400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return bits_as<float>(bits_as<uint32_t>(value) | sign);
  }
  return bits_as<float>(sign | ((magnitude << 13) + (uint32_t{127 - 15} << 23)));
}

inline uint16_t float_to_half(float value) {
  const auto bits = bits_as<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7e00;
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 65536 and more
  if (magnitude < 0x38800000) {  // below the smallest normal: add a number whose ulp is 2^-24
    const float shifted = bits_as<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_as<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude + 0xfff + odd - (uint32_t{127 - 15} << 23)) >> 13));
}

void halves_to_floats(const uint8_t* from8, float* to, size_t n) {
  const auto* from = reinterpret_cast<const Aliased<uint16_t>*>(from8);
  size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m256 value = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from8 + 2 * i)));
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    _mm256_storeu_ps(to + i,
                     _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), nan));
  }
#endif
  for (; i < n; ++i) to[i] = half_to_float(from[i]);
}

void floats_to_halves(const float* from, uint8_t* to8, size_t n) {
  auto* to = reinterpret_cast<Aliased<uint16_t>*>(to8);
  size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i);
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256 clean = _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to8 + 2 * i),
                     _mm256_cvtps_ph(clean, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) to[i] = float_to_half(from[i]);
}

inline float bfloat_to_float(uint16_t bits) {
  return canonical(bits_as<float>(static_cast<uint32_t>(bits) << 16));
}

inline uint16_t float_to_bfloat(float value) {
  const auto bits = bits_as<uint32_t>(value);
  const auto rounded = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  return value != value ? uint16_t{0x7fc0} : rounded;
}

void bfloats_to_floats(const uint8_t* from8, float* to, size_t n) {
  const auto* from = reinterpret_cast<const Aliased<uint16_t>*>(from8);
  for (size_t i = 0; i < n; ++i) to[i] = bfloat_to_float(from[i]);
}

void floats_to_bfloats(const float* from, uint8_t* to8, size_t n) {
  auto* to = reinterpret_cast<Aliased<uint16_t>*>(to8);
  for (size_t i = 0; i < n; ++i) to[i] = float_to_bfloat(from[i]);
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
