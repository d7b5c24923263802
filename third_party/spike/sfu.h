// The special-function unit: f32 in, f32 out, evaluated in f64 and rounded once. Every NaN result is
// 0x7fc00000.
#pragma once

#include <cstddef>

#include "isa_generated.h"

namespace npu::engine {

void special_function(SfuFunction function, const float* values, size_t count, float* results);

}  // namespace npu::engine
