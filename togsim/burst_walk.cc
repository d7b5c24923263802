#include "burst_walk.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <stdexcept>

namespace npu::timing {

BurstBlock burst_block(const StridedRuns& runs, uint32_t burst_bytes) {
  if (burst_bytes == 0) throw std::invalid_argument("burst_bytes is 0");
  BurstBlock block;
  const auto empty = [](const auto& dim) { return dim.count == 0; };
  if (runs.run_bytes == 0 || std::any_of(runs.dims.begin(), runs.dims.end(), empty)) return block;
  block.base = runs.base;
  block.span_bytes = runs.run_bytes;
  for (const auto& dim : runs.dims) {
    if (dim.count == 1 || dim.stride_bytes == 0) continue;
    if (dim.stride_bytes < 0) block.base -= static_cast<uint64_t>(-dim.stride_bytes) * (dim.count - 1);
    block.dims.push_back({dim.count, static_cast<uint64_t>(std::abs(dim.stride_bytes))});
  }
  std::stable_sort(block.dims.begin(), block.dims.end(),
                   [](const auto& a, const auto& b) { return a.stride > b.stride; });
  // A gap smaller than a burst holds no whole burst: all bursts from the first to the last run are touched.
  while (!block.dims.empty() && block.dims.back().stride < block.span_bytes + burst_bytes) {
    block.span_bytes += block.dims.back().stride * (block.dims.back().count - 1);
    block.dims.pop_back();
  }
  return block;
}

BurstWalk::BurstWalk(const Transfer& transfer, uint32_t burst_bytes)
    : transfer_(&transfer), burst_bytes_(burst_bytes), burst_bits_(std::countr_zero(burst_bytes)) {
  if (!std::has_single_bit(burst_bytes)) throw std::invalid_argument("burst_bytes is no power of two");
  open_block();
}

BurstSpan BurstWalk::next(uint64_t limit) {
  while (run_.count == 0) {
    if (block_.span_bytes == 0) return {};
    if (!step()) {
      open_block();
      if (block_.span_bytes == 0) return {};
    }
  }
  const BurstSpan taken{run_.first, std::min(limit, run_.count)};
  run_.first += taken.count;
  run_.count -= taken.count;
  return taken;
}

void BurstWalk::open_block() {
  previous_ = last_;
  do {
    if (next_block_ == transfer_->runs.size()) {
      block_.span_bytes = 0;
      return;
    }
    const StridedRuns& runs = transfer_->runs[next_block_++];
    if (runs.dims.empty()) {
      block_.base = runs.base;
      block_.span_bytes = runs.run_bytes;
      block_.dims.clear();
    } else {
      block_ = burst_block(runs, burst_bytes_);
    }
  } while (block_.span_bytes == 0);
  if (!block_.dims.empty()) index_.assign(block_.dims.size(), 0);
  address_ = block_.base;
  open_run();
  if (run_.first == previous_) {  // the block begins in the burst in which the one before ended
    ++run_.first;
    --run_.count;
  }
}

void BurstWalk::open_run() {
  run_.first = address_ >> burst_bits_;
  last_ = (address_ + block_.span_bytes - 1) >> burst_bits_;
  run_.count = last_ - run_.first + 1;
}

bool BurstWalk::step() {
  for (size_t d = block_.dims.size(); d-- > 0;) {
    if (++index_[d] < block_.dims[d].count) {
      address_ += block_.dims[d].stride;
      open_run();
      return true;
    }
    address_ -= block_.dims[d].stride * (block_.dims[d].count - 1);
    index_[d] = 0;
  }
  return false;
}

}  // namespace npu::timing
