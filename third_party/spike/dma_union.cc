#include "dma_union.h"

#include <algorithm>
#include <cstdint>

namespace npu::engine {

namespace {

struct Interval {
  uint64_t first, end;
};

// Axes that meet or overlap the run or the axis inside them become part of it: rows of a window and its taps.
void unite_axes(StridedRuns& block) {
  std::vector<StridedRuns::Dim> inner;  // innermost first
  for (auto outer = block.dims.rbegin(); outer != block.dims.rend(); ++outer) {
    if (inner.empty() && static_cast<uint64_t>(outer->stride_bytes) <= block.run_bytes) {
      block.run_bytes += static_cast<uint64_t>(outer->stride_bytes) * (outer->count - 1);
    } else if (!inner.empty() && outer->stride_bytes % inner.back().stride_bytes == 0 &&
               static_cast<uint64_t>(outer->stride_bytes / inner.back().stride_bytes) <= inner.back().count) {
      const auto steps = static_cast<uint64_t>(outer->stride_bytes / inner.back().stride_bytes);
      inner.back().count += steps * (outer->count - 1);
    } else {
      inner.push_back(*outer);
    }
  }
  block.dims.assign(inner.rbegin(), inner.rend());
}

uint64_t end_of(const StridedRuns& block) {
  uint64_t end = block.base + block.run_bytes;
  for (const StridedRuns::Dim& dim : block.dims)
    end += static_cast<uint64_t>(dim.stride_bytes) * (dim.count - 1);
  return end;
}

// Takes away the outermost axis if all blocks have it and lie between two of its steps.
bool take_common_axis(std::vector<StridedRuns>& blocks, std::vector<StridedRuns::Dim>& common) {
  if (blocks.front().dims.empty()) return false;
  const StridedRuns::Dim axis = blocks.front().dims.front();
  uint64_t first = UINT64_MAX, end = 0;
  for (const StridedRuns& block : blocks) {
    if (block.dims.empty() || block.dims.front().count != axis.count ||
        block.dims.front().stride_bytes != axis.stride_bytes)
      return false;
    first = std::min(first, block.base);
    end = std::max(end, end_of(block) - static_cast<uint64_t>(axis.stride_bytes) * (axis.count - 1));
  }
  if (end - first > static_cast<uint64_t>(axis.stride_bytes)) return false;
  common.push_back(axis);
  for (StridedRuns& block : blocks) block.dims.erase(block.dims.begin());
  return true;
}

void append_intervals(const StridedRuns& block, std::vector<Interval>& intervals) {
  const size_t start = intervals.size();
  intervals.push_back({block.base, block.base + block.run_bytes});
  for (const StridedRuns::Dim& dim : block.dims) {
    const size_t before = intervals.size();
    for (uint64_t i = 1; i < dim.count; ++i)
      for (size_t n = start; n < before; ++n) {
        const uint64_t shift = i * static_cast<uint64_t>(dim.stride_bytes);
        intervals.push_back({intervals[n].first + shift, intervals[n].end + shift});
      }
  }
}

// Sorted, without overlap; false if there was none before.
bool unite_intervals(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.first < b.first; });
  bool overlap = false;
  size_t last = 0;
  for (size_t n = 1; n < intervals.size(); ++n) {
    overlap |= intervals[n].first < intervals[last].end;
    if (intervals[n].first <= intervals[last].end)
      intervals[last].end = std::max(intervals[last].end, intervals[n].end);
    else
      intervals[++last] = intervals[n];
  }
  intervals.resize(intervals.empty() ? 0 : last + 1);
  return overlap;
}

// Equal intervals at equal distances become one block.
std::vector<StridedRuns> blocks_of(const std::vector<Interval>& intervals,
                                   const std::vector<StridedRuns::Dim>& common) {
  std::vector<StridedRuns> blocks;
  for (size_t n = 0; n < intervals.size();) {
    const uint64_t size = intervals[n].end - intervals[n].first;
    uint64_t count = 1, stride = 0;
    while (n + count < intervals.size()) {
      const Interval& next = intervals[n + count];
      const uint64_t distance = next.first - intervals[n + count - 1].first;
      if (next.end - next.first != size || (count > 1 && distance != stride)) break;
      stride = distance;
      ++count;
    }
    StridedRuns block{intervals[n].first, size, common};
    if (count > 1) block.dims.push_back({count, static_cast<int64_t>(stride)});
    blocks.push_back(std::move(block));
    n += count;
  }
  return blocks;
}

}  // namespace

void unite_blocks(std::vector<StridedRuns>& blocks) {
  for (StridedRuns& block : blocks) unite_axes(block);
  if (blocks.empty()) return;
  std::vector<StridedRuns> inside = blocks;
  std::vector<StridedRuns::Dim> common;
  while (take_common_axis(inside, common)) {
  }
  if (inside.size() == 1 && inside.front().dims.size() < 2) return;
  std::vector<Interval> intervals;
  for (const StridedRuns& block : inside) append_intervals(block, intervals);
  if (unite_intervals(intervals)) blocks = blocks_of(intervals, common);
}

}  // namespace npu::engine
