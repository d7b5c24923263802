// The scratchpad of a core: one slice per lane, and which bytes of the slices transfers have in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace npu::engine {

// Lane l's slice starts at data() + l * stride_bytes(). The stride is padded, so that equal offsets of all
// lanes do not fall into one cache set, and the memory asks for huge pages.
class Scratchpad {
 public:
  Scratchpad(uint32_t lanes, uint64_t slice_bytes);
  ~Scratchpad();
  Scratchpad(const Scratchpad&) = delete;
  Scratchpad& operator=(const Scratchpad&) = delete;

  uint8_t* lane(uint32_t index) { return data_ + index * stride_bytes_; }
  uint64_t stride_bytes() const { return stride_bytes_; }
  uint64_t slice_bytes() const { return slice_bytes_; }

  // Every writer reports what it wrote, so that reset() only rewrites what a launch touched.
  void mark_written(uint64_t offset, uint64_t bytes) {
    written_ |=
        (UINT64_C(2) << ((offset + bytes - 1) >> block_shift_)) - (UINT64_C(1) << (offset >> block_shift_));
  }

  // Every byte of every lane becomes `pattern`.
  void reset(uint8_t pattern);

 private:
  uint32_t lanes_;
  uint64_t slice_bytes_;
  uint64_t stride_bytes_;
  uint64_t allocation_bytes_;
  uint32_t block_shift_;  // a bit of written_ stands for 2^block_shift_ bytes of every slice
  uint64_t written_ = ~UINT64_C(0);
  int32_t pattern_ = -1;  // what unwritten blocks hold; -1: unknown
  uint8_t* data_ = nullptr;
};

// Bytes named by transfers that are under way, in granules that hold for all lanes at once. A granule is the
// target of at most one load, or the source of any number of stores.
class InFlight {
 public:
  explicit InFlight(uint64_t slice_bytes);

  // True if a read (or a write) of these bytes would meet a transfer under way.
  bool conflicts(uint64_t offset, uint64_t bytes, bool write) const {
    if (transfers_ == 0) return false;
    const uint16_t forbidden = write ? 0xffff : kTarget;
    const uint64_t last = (offset + bytes - 1) / kGranule;
    for (uint64_t granule = offset / kGranule; granule <= last; ++granule)
      if ((state_[granule] & forbidden) != 0) return true;
    return false;
  }

  struct Range {
    uint64_t offset;
    uint64_t bytes;
  };

  void add_targets(const std::vector<Range>& ranges);
  void add_sources(const std::vector<Range>& ranges);
  void remove_targets(const std::vector<Range>& ranges);
  void remove_sources(const std::vector<Range>& ranges);
  void begin_transfer() { ++transfers_; }
  void end_transfer() { --transfers_; }
  void clear();

  static bool overlap(const std::vector<Range>& ranges, uint64_t offset, uint64_t bytes);

 private:
  static constexpr uint64_t kGranule = 32;
  static constexpr uint16_t kTarget = 0x8000;
  std::vector<uint16_t> state_;  // kTarget, or the number of stores that read the granule
  uint32_t transfers_ = 0;
};

}  // namespace npu::engine
