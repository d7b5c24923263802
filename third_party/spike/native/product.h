// The systolic array's product: a register-blocked multiplication that keeps the order of k. Included by
// every level.
#pragma once

#include "native/element.h"

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

namespace npu::engine::NPU_LEVEL {
namespace {

#if defined(__AVX512F__)
struct Vector {
  static constexpr size_t kFloats = 16, kRows = 8, kColumns = 2;
  __m512 value;
  static Vector zero() { return {_mm512_setzero_ps()}; }
  static Vector load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vector all(const float* from) { return {_mm512_set1_ps(*from)}; }
  static Vector fma(Vector a, Vector b, Vector c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }
  void store(float* to) const { _mm512_storeu_ps(to, value); }
};
#elif defined(__FMA__)
struct Vector {
  static constexpr size_t kFloats = 8, kRows = 4, kColumns = 2;
  __m256 value;
  static Vector zero() { return {_mm256_setzero_ps()}; }
  static Vector load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Vector all(const float* from) { return {_mm256_broadcast_ss(from)}; }
  static Vector fma(Vector a, Vector b, Vector c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }
  void store(float* to) const { _mm256_storeu_ps(to, value); }
};
#else
struct Vector {
  static constexpr size_t kFloats = 4, kRows = 2, kColumns = 1;
  float value[4];
  static Vector zero() { return {{0, 0, 0, 0}}; }
  static Vector load(const float* from) { return {{from[0], from[1], from[2], from[3]}}; }
  static Vector all(const float* from) { return {{*from, *from, *from, *from}}; }
  static Vector fma(Vector a, Vector b, Vector c) {
    for (size_t i = 0; i < 4; ++i) c.value[i] = fused(a.value[i], b.value[i], c.value[i]);
    return c;
  }
  void store(float* to) const {
    for (size_t i = 0; i < 4; ++i) to[i] = value[i];
  }
};
#endif

// A tile of kRows inputs by kColumns vectors of lanes.
template <size_t kRows, size_t kColumns>
inline void multiply_tile(const float* inputs, const float* weights, size_t rows, size_t lanes,
                          float* results) {
  Vector sums[kRows][kColumns];
  for (size_t i = 0; i < kRows; ++i)
    for (size_t j = 0; j < kColumns; ++j) sums[i][j] = Vector::zero();
  for (size_t k = 0; k < rows; ++k) {
    Vector row[kColumns];
    for (size_t j = 0; j < kColumns; ++j) row[j] = Vector::load(weights + k * lanes + j * Vector::kFloats);
    for (size_t i = 0; i < kRows; ++i) {
      const Vector input = Vector::all(inputs + i * lanes + k);
      for (size_t j = 0; j < kColumns; ++j) sums[i][j] = Vector::fma(input, row[j], sums[i][j]);
    }
  }
  for (size_t i = 0; i < kRows; ++i)
    for (size_t j = 0; j < kColumns; ++j) sums[i][j].store(results + i * lanes + j * Vector::kFloats);
}

template <size_t kColumns>
void multiply_columns(const float* inputs, const float* weights, size_t rows, size_t lanes, size_t count,
                      float* results) {
  size_t i = 0;
  for (; i + Vector::kRows <= count; i += Vector::kRows)
    multiply_tile<Vector::kRows, kColumns>(inputs + i * lanes, weights, rows, lanes, results + i * lanes);
  for (; i < count; ++i)
    multiply_tile<1, kColumns>(inputs + i * lanes, weights, rows, lanes, results + i * lanes);
}

void multiply_floats(const float* inputs, const float* weights, size_t rows, size_t lanes, size_t count,
                     float* results) {
  constexpr size_t kBlock = Vector::kFloats * Vector::kColumns;
  size_t j = 0;
  for (; j + kBlock <= lanes; j += kBlock)
    multiply_columns<Vector::kColumns>(inputs, weights + j, rows, lanes, count, results + j);
  for (; j + Vector::kFloats <= lanes; j += Vector::kFloats)
    multiply_columns<1>(inputs, weights + j, rows, lanes, count, results + j);
  for (; j < lanes; ++j)
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (size_t k = 0; k < rows; ++k) sum = fused(inputs[i * lanes + k], weights[k * lanes + j], sum);
      results[i * lanes + j] = sum;
    }
}

void multiply_integers(const uint32_t* inputs, const uint32_t* weights, size_t rows, size_t lanes,
                       size_t count, uint32_t* results) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t* result = results + i * lanes;
    for (size_t j = 0; j < lanes; ++j) result[j] = 0;
    for (size_t k = 0; k < rows; ++k) {
      const uint32_t input = inputs[i * lanes + k];
      const uint32_t* row = weights + k * lanes;
#pragma GCC ivdep
      for (size_t j = 0; j < lanes; ++j) result[j] += input * row[j];
    }
  }
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
