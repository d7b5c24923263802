// The combining stores: DRAM element = DRAM element (+, min, max) tile element.
#pragma once

#include <cstdint>

#include "isa_generated.h"

namespace npu::engine {

// `count` elements in order, strides in bytes. Integers wrap. Floats round once per addition; min and max of
// a NaN and a number is NaN (as torch's amin and amax). bool: add and max are or, min is and.
void combine(TransferOp op, Dtype dtype, uint8_t* to, int64_t to_stride_bytes, const uint8_t* from,
             int64_t from_stride_bytes, int64_t count);

}  // namespace npu::engine
