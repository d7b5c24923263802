// The bursts of a transfer one after another: by address over the whole transfer, each once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace.h"

namespace npu::timing {

// A strided block without order and direction: positive strides, largest first, runs that meet in a burst
// merged.
struct BurstBlock {
  struct Dim {
    uint64_t count, stride;
  };
  uint64_t base = 0;
  uint64_t span_bytes = 0;  // of a merged run; 0: the block is empty
  std::vector<Dim> dims;    // outermost first
};

BurstBlock burst_block(const StridedRuns& runs, uint32_t burst_bytes);

// Consecutive bursts by number (address / burst_bytes).
struct BurstSpan {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Walks a transfer, which must outlive it. It yields as many bursts as `count_bursts` counts. Bursts are a
// power of two of bytes.
class BurstWalk {
 public:
  BurstWalk(const Transfer& transfer, uint32_t burst_bytes);
  // The next consecutive bursts, at most `limit`; a count of 0 at the end.
  BurstSpan next(uint64_t limit);

 private:
  void open_block();
  void open_run();
  bool step();  // to the next run of the block

  const Transfer* transfer_;
  uint32_t burst_bytes_;
  int burst_bits_;
  size_t next_block_ = 0;
  BurstBlock block_;
  std::vector<uint64_t> index_;
  uint64_t address_ = 0;
  BurstSpan run_;
  uint64_t previous_ = ~uint64_t{0};  // the burst that the block before ended in
  uint64_t last_ = ~uint64_t{0};
};

}  // namespace npu::timing
