#include "burst_count.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace npu::timing {
namespace {

bool empty(const StridedRuns& runs) {
  return runs.run_bytes == 0 ||
         std::any_of(runs.dims.begin(), runs.dims.end(), [](const auto& dim) { return dim.count == 0; });
}

}  // namespace

uint64_t count_bursts(const StridedRuns& runs, uint32_t burst_bytes) {
  if (burst_bytes == 0) throw std::invalid_argument("burst_bytes is 0");
  if (empty(runs)) return 0;
  // Order and direction of the walk do not change the set of bytes: positive strides, smallest first.
  uint64_t base = runs.base, span = runs.run_bytes;
  struct Dim {
    uint64_t count, stride;
  };
  std::vector<Dim> dims;
  for (const auto& dim : runs.dims) {
    if (dim.count == 1 || dim.stride_bytes == 0) continue;
    if (dim.stride_bytes < 0) base -= static_cast<uint64_t>(-dim.stride_bytes) * (dim.count - 1);
    dims.push_back({dim.count, static_cast<uint64_t>(std::abs(dim.stride_bytes))});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });

  // A gap smaller than a burst holds no whole burst: all bursts from the first to the last run are touched.
  size_t merged = 0;
  while (merged < dims.size() && dims[merged].stride < span + burst_bytes) {
    span += dims[merged].stride * (dims[merged].count - 1);
    ++merged;
  }
  if (merged == dims.size()) return (base % burst_bytes + span + burst_bytes - 1) / burst_bytes;
  // Runs further apart share nothing. How many bursts one touches depends on its address modulo the burst, so
  // count the runs by that residue, dimension by dimension.
  std::vector<uint64_t> starts(burst_bytes, 0), next(burst_bytes);
  starts[base % burst_bytes] = 1;
  for (size_t d = merged; d < dims.size(); ++d) {
    std::fill(next.begin(), next.end(), 0);
    const uint64_t step = dims[d].stride % burst_bytes;
    // The residues of i * step repeat after at most burst_bytes steps.
    const uint64_t period = std::min<uint64_t>(burst_bytes, dims[d].count);
    for (uint64_t i = 0; i < period; ++i) {
      const uint64_t times = (dims[d].count - i + burst_bytes - 1) / burst_bytes;
      for (uint64_t r = 0; r < burst_bytes; ++r) {
        if (starts[r]) next[(r + i * step) % burst_bytes] += starts[r] * times;
      }
    }
    starts.swap(next);
  }
  uint64_t bursts = 0;
  for (uint64_t r = 0; r < burst_bytes; ++r)
    bursts += starts[r] * ((r + span + burst_bytes - 1) / burst_bytes);
  return bursts;
}

uint64_t count_bursts(const Transfer& transfer, uint32_t burst_bytes) {
  uint64_t bursts = 0;
  bool have_previous = false;
  uint64_t previous_last = 0;
  for (const StridedRuns& runs : transfer.runs) {
    if (empty(runs)) continue;
    bursts += count_bursts(runs, burst_bytes);
    uint64_t last = runs.base + runs.run_bytes - 1;
    for (const auto& dim : runs.dims) last += static_cast<uint64_t>(dim.stride_bytes) * (dim.count - 1);
    if (have_previous && runs.base / burst_bytes == previous_last / burst_bytes) --bursts;
    previous_last = last;
    have_previous = true;
  }
  return bursts;
}

}  // namespace npu::timing
