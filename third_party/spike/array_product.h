// Products of a systolic array: results[i][j] = sum over k of inputs[i][k] * weights[k][j], in the order of
// k.
#pragma once

#include <cstdint>

namespace npu::engine {

// One fused multiply-add per k, starting from +0: the same bits on every machine. Weights past `rows` are
// zero, which matters where the input there is NaN or infinite. All matrices have `lanes` columns; every NaN
// becomes 0x7fc00000.
void multiply_floats(const float* inputs, const float* weights, uint32_t rows, uint32_t lanes, uint32_t count,
                     float* results);

// The same in int32, wrapping.
void multiply_integers(const uint32_t* inputs, const uint32_t* weights, uint32_t rows, uint32_t lanes,
                       uint32_t count, uint32_t* results);

}  // namespace npu::engine
