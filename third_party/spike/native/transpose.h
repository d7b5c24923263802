// Between rows in memory and elements in lanes: the traffic of transfers and of the arrays. Included by every
// level.
#pragma once

#include "native/bodies.h"
#include "native/element.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace npu::engine::NPU_LEVEL {
namespace {

// An 8 x 8 block: out[c][r] = in[r][c]. Rows are read and written whole.
template <typename T>
struct Block {
  T at[8][8];

  void transpose() {
    for (size_t r = 0; r < 8; ++r)
      for (size_t c = r + 1; c < 8; ++c) {
        const T kept = at[r][c];
        at[r][c] = at[c][r];
        at[c][r] = kept;
      }
  }
};

template <typename T>
inline void transpose_block(const uint8_t* const (&from)[8], uint8_t* const (&to)[8]) {
#ifdef __AVX2__
  if constexpr (sizeof(T) == 4) {
    __m256 row[8], half[8];
    for (size_t r = 0; r < 8; ++r) row[r] = _mm256_loadu_ps(reinterpret_cast<const float*>(from[r]));
    for (size_t r = 0; r < 8; r += 2) {
      half[r] = _mm256_unpacklo_ps(row[r], row[r + 1]);
      half[r + 1] = _mm256_unpackhi_ps(row[r], row[r + 1]);
    }
    for (size_t r = 0; r < 8; r += 4)
      for (size_t h = 0; h < 2; ++h) {
        row[r + 2 * h] = _mm256_shuffle_ps(half[r + h], half[r + h + 2], 0x44);
        row[r + 2 * h + 1] = _mm256_shuffle_ps(half[r + h], half[r + h + 2], 0xee);
      }
    for (size_t c = 0; c < 4; ++c) {
      _mm256_storeu_ps(reinterpret_cast<float*>(to[c]), _mm256_permute2f128_ps(row[c], row[c + 4], 0x20));
      _mm256_storeu_ps(reinterpret_cast<float*>(to[c + 4]), _mm256_permute2f128_ps(row[c], row[c + 4], 0x31));
    }
    return;
  }
#endif
#ifdef __SSE2__
  if constexpr (sizeof(T) == 2) {
    __m128i row[8], half[8];
    for (size_t r = 0; r < 8; ++r) row[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from[r]));
    for (size_t r = 0; r < 4; ++r) {
      half[2 * r] = _mm_unpacklo_epi16(row[r], row[r + 4]);
      half[2 * r + 1] = _mm_unpackhi_epi16(row[r], row[r + 4]);
    }
    for (size_t r = 0; r < 4; ++r) {
      row[2 * r] = _mm_unpacklo_epi16(half[r], half[r + 4]);
      row[2 * r + 1] = _mm_unpackhi_epi16(half[r], half[r + 4]);
    }
    for (size_t r = 0; r < 4; ++r) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to[2 * r]), _mm_unpacklo_epi16(row[r], row[r + 4]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to[2 * r + 1]), _mm_unpackhi_epi16(row[r], row[r + 4]));
    }
    return;
  }
#endif
  Block<T> block;
  for (size_t r = 0; r < 8; ++r) __builtin_memcpy(block.at[r], from[r], sizeof block.at[r]);
  block.transpose();
  for (size_t c = 0; c < 8; ++c) __builtin_memcpy(to[c], block.at[c], sizeof block.at[c]);
}

// lane[c] + offset holds element r at r: element r of lane c = row r, column c.
template <typename T>
void rows_to_lanes(uint8_t* const* lane, size_t offset, const uint8_t* rows, size_t row_stride,
                   size_t row_count, size_t lane_count) {
  size_t r = 0;
  for (; r + 8 <= row_count; r += 8) {
    size_t c = 0;
    for (; c + 8 <= lane_count; c += 8) {
      const uint8_t* from[8];
      uint8_t* to[8];
      for (size_t i = 0; i < 8; ++i) {
        from[i] = rows + (r + i) * row_stride + c * sizeof(T);
        to[i] = lane[c + i] + offset + r * sizeof(T);
      }
      transpose_block<T>(from, to);
    }
    for (; c < lane_count; ++c)
      for (size_t i = r; i < r + 8; ++i)
        __builtin_memcpy(lane[c] + offset + i * sizeof(T), rows + i * row_stride + c * sizeof(T), sizeof(T));
  }
  for (; r < row_count; ++r)
    for (size_t c = 0; c < lane_count; ++c)
      __builtin_memcpy(lane[c] + offset + r * sizeof(T), rows + r * row_stride + c * sizeof(T), sizeof(T));
}

template <typename T>
void lanes_to_rows(uint8_t* const* lane, size_t offset, uint8_t* rows, size_t row_stride, size_t row_count,
                   size_t lane_count) {
  size_t r = 0;
  for (; r + 8 <= row_count; r += 8) {
    size_t c = 0;
    for (; c + 8 <= lane_count; c += 8) {
      const uint8_t* from[8];
      uint8_t* to[8];
      for (size_t i = 0; i < 8; ++i) {
        from[i] = lane[c + i] + offset + r * sizeof(T);
        to[i] = rows + (r + i) * row_stride + c * sizeof(T);
      }
      transpose_block<T>(from, to);
    }
    for (; c < lane_count; ++c)
      for (size_t i = r; i < r + 8; ++i)
        __builtin_memcpy(rows + i * row_stride + c * sizeof(T), lane[c] + offset + i * sizeof(T), sizeof(T));
  }
  for (; r < row_count; ++r)
    for (size_t c = 0; c < lane_count; ++c)
      __builtin_memcpy(rows + r * row_stride + c * sizeof(T), lane[c] + offset + r * sizeof(T), sizeof(T));
}

void add_transpose(Bodies& bodies) {
  bodies.rows_to_lanes = {rows_to_lanes<uint8_t>, rows_to_lanes<uint16_t>, rows_to_lanes<uint32_t>,
                          rows_to_lanes<uint64_t>};
  bodies.lanes_to_rows = {lanes_to_rows<uint8_t>, lanes_to_rows<uint16_t>, lanes_to_rows<uint32_t>,
                          lanes_to_rows<uint64_t>};
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
