#include "array_product.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace npu::engine {

void multiply_floats(const float* inputs, const float* weights, uint32_t rows, uint32_t lanes, uint32_t count,
                     float* results) {
  for (uint32_t i = 0; i < count; ++i) {
    const float* input = inputs + size_t{i} * lanes;
    float* result = results + size_t{i} * lanes;
    std::fill_n(result, lanes, 0.0f);
    for (uint32_t k = 0; k < rows; ++k) {
      const float* row = weights + size_t{k} * lanes;
      for (uint32_t j = 0; j < lanes; ++j) result[j] = std::fma(input[k], row[j], result[j]);
    }
    const bool poisoned =
        std::any_of(input + rows, input + lanes, [](float value) { return !std::isfinite(value); });
    for (uint32_t j = 0; j < lanes; ++j)
      if (poisoned || std::isnan(result[j])) result[j] = std::bit_cast<float>(UINT32_C(0x7fc00000));
  }
}

void multiply_integers(const uint32_t* inputs, const uint32_t* weights, uint32_t rows, uint32_t lanes,
                       uint32_t count, uint32_t* results) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t* input = inputs + size_t{i} * lanes;
    uint32_t* result = results + size_t{i} * lanes;
    std::fill_n(result, lanes, 0u);
    for (uint32_t k = 0; k < rows; ++k) {
      const uint32_t* row = weights + size_t{k} * lanes;
      for (uint32_t j = 0; j < lanes; ++j) result[j] += input[k] * row[j];
    }
  }
}

}  // namespace npu::engine
