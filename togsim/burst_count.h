// How many DRAM bursts a transfer touches: by address, over the whole transfer.
#pragma once

#include <cstdint>

#include "trace.h"

namespace npu::timing {

// Distinct aligned blocks of `burst_bytes` touched by one strided block. Runs of one dimension that meet in a
// burst share it. Exact unless a dimension's runs interleave with those of another one (then an upper bound).
uint64_t count_bursts(const StridedRuns& runs, uint32_t burst_bytes);

// Sum over the transfer's blocks; a block that starts in the burst in which the previous one ended shares it.
uint64_t count_bursts(const Transfer& transfer, uint32_t burst_bytes);

}  // namespace npu::timing
