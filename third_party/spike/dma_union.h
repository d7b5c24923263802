// Bytes that a transfer reads several times, as windows do, counted once.
#pragma once

#include <vector>

#include "trace.h"

namespace npu::engine {

// The same bytes as `blocks`, each in one run only. Strides are positive, largest first, as `block_runs`
// makes them. Blocks that do not overlap stay as they are.
void unite_blocks(std::vector<StridedRuns>& blocks);

}  // namespace npu::engine
