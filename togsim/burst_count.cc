#include "burst_count.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <vector>

#include "burst_walk.h"

namespace npu::timing {
namespace {

uint64_t count(const BurstBlock& block, uint32_t burst_bytes) {
  if (block.span_bytes == 0) return 0;
  if (block.dims.empty())
    return (block.base % burst_bytes + block.span_bytes + burst_bytes - 1) / burst_bytes;
  // Runs further apart share nothing. How many bursts one touches depends on its address modulo the burst, so
  // count the runs by that residue, dimension by dimension.
  std::vector<uint64_t> starts(burst_bytes, 0), next(burst_bytes);
  starts[block.base % burst_bytes] = 1;
  for (const auto& dim : block.dims) {
    std::fill(next.begin(), next.end(), 0);
    const uint64_t step = dim.stride % burst_bytes;
    // The residues of i * step repeat after at most burst_bytes steps.
    const uint64_t period = std::min<uint64_t>(burst_bytes, dim.count);
    for (uint64_t i = 0; i < period; ++i) {
      const uint64_t times = (dim.count - i + burst_bytes - 1) / burst_bytes;
      for (uint64_t r = 0; r < burst_bytes; ++r) {
        if (starts[r]) next[(r + i * step) % burst_bytes] += starts[r] * times;
      }
    }
    starts.swap(next);
  }
  uint64_t bursts = 0;
  for (uint64_t r = 0; r < burst_bytes; ++r)
    bursts += starts[r] * ((r + block.span_bytes + burst_bytes - 1) / burst_bytes);
  return bursts;
}

}  // namespace

uint64_t count_bursts(const StridedRuns& runs, uint32_t burst_bytes) {
  return count(burst_block(runs, burst_bytes), burst_bytes);
}

uint64_t count_bursts(const Transfer& transfer, uint32_t burst_bytes) {
  if (burst_bytes == 0) throw std::invalid_argument("burst_bytes is 0");
  // A transfer may be as many blocks as bursts: a shift where a division would do.
  const int bits = std::has_single_bit(burst_bytes) ? std::countr_zero(burst_bytes) : -1;
  const auto burst_of = [&](uint64_t address) { return bits >= 0 ? address >> bits : address / burst_bytes; };
  uint64_t bursts = 0;
  uint64_t previous = ~uint64_t{0};  // the burst that the block before ended in
  for (const StridedRuns& runs : transfer.runs) {
    if (runs.dims.empty()) {
      if (runs.run_bytes == 0) continue;
      const uint64_t first = burst_of(runs.base), last = burst_of(runs.base + runs.run_bytes - 1);
      bursts += last - first + (first != previous);
      previous = last;
      continue;
    }
    const BurstBlock block = burst_block(runs, burst_bytes);
    if (block.span_bytes == 0) continue;
    bursts += count(block, burst_bytes);
    if (block.base / burst_bytes == previous) --bursts;
    uint64_t last = block.base + block.span_bytes - 1;
    for (const auto& dim : block.dims) last += dim.stride * (dim.count - 1);
    previous = last / burst_bytes;
  }
  return bursts;
}

}  // namespace npu::timing
