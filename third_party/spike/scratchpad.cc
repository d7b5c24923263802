#include "scratchpad.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "isa_generated.h"

namespace npu::engine {

Scratchpad::Scratchpad(uint32_t lanes, uint64_t slice_bytes) : lanes_(lanes), slice_bytes_(slice_bytes) {
  stride_bytes_ = (slice_bytes + 63) / 64 * 64 + 4096 + 64;
  allocation_bytes_ = lanes * stride_bytes_;
  const uint64_t block = std::bit_ceil(std::max<uint64_t>(64, (slice_bytes + 63) / 64));
  block_shift_ = static_cast<uint32_t>(std::countr_zero(block));
  void* memory = mmap(nullptr, allocation_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, allocation_bytes_, MADV_HUGEPAGE);  // only speed: failure is fine
  data_ = static_cast<uint8_t*>(memory);
}

Scratchpad::~Scratchpad() { munmap(data_, allocation_bytes_); }

void Scratchpad::reset(uint8_t pattern) {
  const uint64_t block = UINT64_C(1) << block_shift_;
  const uint64_t blocks = (slice_bytes_ + block - 1) / block;
  if (pattern_ != pattern) written_ = ~UINT64_C(0);
  for (uint64_t first = 0; first < blocks;) {
    if ((written_ >> first & 1) == 0) {
      ++first;
      continue;
    }
    uint64_t end = first;
    while (end < blocks && (written_ >> end & 1) != 0) ++end;
    const uint64_t offset = first * block;
    const uint64_t bytes = std::min(end * block, slice_bytes_) - offset;
    for (uint32_t index = 0; index < lanes_; ++index) std::memset(lane(index) + offset, pattern, bytes);
    first = end;
  }
  written_ = 0;
  pattern_ = pattern;
}

InFlight::InFlight(uint64_t slice_bytes) : state_((slice_bytes + kGranule - 1) / kGranule, 0) {
  static_assert(kGranule == kInFlightGranuleBytes);
}

namespace {
template <typename Body>
void for_each_granule(const std::vector<InFlight::Range>& ranges, Body body) {
  // Neighbouring ranges may share a granule; it counts once.
  uint64_t next = 0;
  for (const InFlight::Range& range : ranges) {
    const uint64_t last = (range.offset + range.bytes - 1) / kInFlightGranuleBytes;
    for (uint64_t granule = std::max(range.offset / kInFlightGranuleBytes, next); granule <= last; ++granule)
      body(granule);
    next = std::max(next, last + 1);
  }
}
}  // namespace

void InFlight::add_targets(const std::vector<Range>& ranges) {
  for_each_granule(ranges, [this](uint64_t granule) { state_[granule] = kTarget; });
}

void InFlight::add_sources(const std::vector<Range>& ranges) {
  for_each_granule(ranges, [this](uint64_t granule) { ++state_[granule]; });
}

void InFlight::remove_targets(const std::vector<Range>& ranges) {
  for_each_granule(ranges, [this](uint64_t granule) { state_[granule] = 0; });
}

void InFlight::remove_sources(const std::vector<Range>& ranges) {
  for_each_granule(ranges, [this](uint64_t granule) { --state_[granule]; });
}

void InFlight::clear() {
  std::fill(state_.begin(), state_.end(), uint16_t{0});
  transfers_ = 0;
}

bool InFlight::overlap(const std::vector<Range>& ranges, uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / kInFlightGranuleBytes;
  const uint64_t last = (offset + bytes - 1) / kInFlightGranuleBytes;
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return range.offset / kInFlightGranuleBytes <= last &&
           (range.offset + range.bytes - 1) / kInFlightGranuleBytes >= first;
  });
}

}  // namespace npu::engine
