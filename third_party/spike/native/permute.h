// Bodies that move elements: merging under a mask, packing bits, blending shifted rows, splats. Included by
// every level.
#pragma once

#include "native/bodies.h"
#include "native/element.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace npu::engine::NPU_LEVEL {
namespace {

// Eight elements under one byte of mask.
template <typename T>
inline void merge_eight(Aliased<T>* to, const Aliased<T>* from, uint8_t mask) {
  T chosen[8], kept[8];
  __builtin_memcpy(chosen, from, sizeof chosen);
  __builtin_memcpy(kept, to, sizeof kept);
  for (unsigned i = 0; i < 8; ++i) kept[i] = (mask >> i & 1) != 0 ? chosen[i] : kept[i];
  __builtin_memcpy(to, kept, sizeof kept);
}

template <typename T>
void merge_rows(const MergeArguments& m) {
  const bool bytewise = m.first_bit % 8 == 0;
  for (size_t lane = 0; lane < m.lanes; ++lane) {
    auto* to = reinterpret_cast<Aliased<T>*>(m.to + lane * m.row_stride);
    const auto* from = reinterpret_cast<const Aliased<T>*>(m.from + lane * m.row_stride);
    if (m.mask == nullptr) {
      for (size_t i = 0; i < m.count; ++i) to[i] = from[i];
      continue;
    }
    const uint8_t* mask = m.mask + lane * m.row_stride + m.first_bit / 8;
    size_t i = 0;
    if (bytewise)
      for (; i + 8 <= m.count; i += 8) merge_eight<T>(to + i, from + i, mask[i / 8]);
    for (; i < m.count; ++i) {
      const size_t bit = m.first_bit % 8 + i;
      if ((mask[bit / 8] >> bit % 8 & 1) != 0) to[i] = from[i];
    }
  }
}

#ifdef __AVX2__
// 32 bytes of elements of which bit i of `bits` chooses element i.
template <typename T>
inline __m256i choose(__m256i kept, __m256i chosen, uint32_t bits) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(T) == 1) return _mm256_mask_mov_epi8(kept, bits, chosen);
  if constexpr (sizeof(T) == 2) return _mm256_mask_mov_epi16(kept, static_cast<__mmask16>(bits), chosen);
  if constexpr (sizeof(T) == 4) return _mm256_mask_mov_epi32(kept, static_cast<__mmask8>(bits), chosen);
  return _mm256_mask_mov_epi64(kept, static_cast<__mmask8>(bits), chosen);
#else
  __m256i mask;
  if constexpr (sizeof(T) == 1) {
    const __m256i places = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), places);
    const __m256i single = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    mask = _mm256_cmpeq_epi8(_mm256_and_si256(spread, single), single);
  } else if constexpr (sizeof(T) == 2) {
    const __m256i single = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192,
                                             16384, static_cast<short>(0x8000));
    const __m256i spread = _mm256_set1_epi16(static_cast<short>(bits));
    mask = _mm256_cmpeq_epi16(_mm256_and_si256(spread, single), single);
  } else if constexpr (sizeof(T) == 4) {
    const __m256i single = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i spread = _mm256_set1_epi32(static_cast<int>(bits));
    mask = _mm256_cmpeq_epi32(_mm256_and_si256(spread, single), single);
  } else {
    const __m256i single = _mm256_setr_epi64x(1, 2, 4, 8);
    const __m256i spread = _mm256_set1_epi64x(static_cast<long long>(bits));
    mask = _mm256_cmpeq_epi64(_mm256_and_si256(spread, single), single);
  }
  return _mm256_blendv_epi8(kept, chosen, mask);
#endif
}

// Lanes of 32 bytes, VLEN 256.
template <typename T>
void merge_lanes(const MergeArguments& m) {
  if (m.row_stride != 32) return merge_rows<T>(m);
  const auto counted = static_cast<uint32_t>((UINT64_C(1) << m.count) - 1);
  for (size_t lane = 0; lane < m.lanes; ++lane) {
    uint32_t bits = counted;
    if (m.mask != nullptr) {
      uint32_t word = 0;  // rows are followed by a margin
      __builtin_memcpy(&word, m.mask + lane * 32 + m.first_bit / 8, sizeof word);
      bits &= word >> m.first_bit % 8;
    }
    auto* to = reinterpret_cast<__m256i*>(m.to + lane * 32);
    const __m256i chosen = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(m.from + lane * 32));
    _mm256_storeu_si256(to, choose<T>(_mm256_loadu_si256(to), chosen, bits));
  }
}
#else
template <typename T>
void merge_lanes(const MergeArguments& m) {
  merge_rows<T>(m);
}
#endif

void blend(uint8_t* to, const uint8_t* low, const uint8_t* high, const uint8_t* mask, size_t period,
           size_t bytes) {
  for (size_t start = 0; start < bytes; start += period) {
#pragma GCC ivdep
    for (size_t i = 0; i < period; ++i)
      to[start + i] = static_cast<uint8_t>((low[start + i] & mask[i]) | (high[start + i] & ~mask[i]));
  }
}

template <typename T>
void splat(uint8_t* to8, const uint8_t* from8, size_t index, size_t lanes, size_t elements) {
  auto* to = reinterpret_cast<Aliased<T>*>(to8);
  const auto* from = reinterpret_cast<const Aliased<T>*>(from8);
  for (size_t lane = 0; lane < lanes; ++lane) {
    const T value = from[lane * elements + index];
#pragma GCC ivdep
    for (size_t i = 0; i < elements; ++i) to[lane * elements + i] = value;
  }
}

void add_permute(Bodies& bodies) {
  bodies.merge = {merge_lanes<uint8_t>, merge_lanes<uint16_t>, merge_lanes<uint32_t>, merge_lanes<uint64_t>};
  bodies.blend = blend;
  bodies.splat = {splat<uint8_t>, splat<uint16_t>, splat<uint32_t>, splat<uint64_t>};
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
