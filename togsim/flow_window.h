// Limits on what is under way at once, for fast fidelity: what leaves may leave in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "event_queue.h"

namespace npu::timing {

// A small number of places: whoever comes takes the one that is free first.
class FlowQueue {
 public:
  explicit FlowQueue(size_t places) : left_(places, 0) {}
  Tick free() const { return left_.front(); }
  // Takes that place until `until`.
  void take(Tick until) {
    size_t at = 0;
    for (size_t child = 1; child < left_.size(); child = 2 * at + 1) {
      if (child + 1 < left_.size() && left_[child + 1] < left_[child]) ++child;
      if (left_[child] >= until) break;
      left_[at] = left_[child];
      at = child;
    }
    left_[at] = until;
  }

 private:
  std::vector<Tick> left_;  // a heap, the earliest on top
};

// The same for thousands of places, to the cycle.
class FlowWindow {
 public:
  explicit FlowWindow(uint64_t places) : places_(places), ended_(kCycles) {}

  // When the next one may begin.
  Tick free() {
    while (begun_ - done_ >= places_) {
      uint32_t& ended = ended_[cycle_ % kCycles];
      done_ += std::exchange(ended, 0);
      ++cycle_;
    }
    return to_ticks(cycle_);
  }
  void take(Tick until) {
    ++begun_;
    // What takes longer than the window is wide counts as that long.
    const uint64_t cycle = std::clamp(to_cycles(until), cycle_, cycle_ + kCycles - 1);
    ++ended_[cycle % kCycles];
  }

 private:
  static constexpr uint64_t kCycles = 1 << 14;
  uint64_t places_, begun_ = 0, done_ = 0;
  uint64_t cycle_ = 0;           // everything that ended before it is counted in done_
  std::vector<uint32_t> ended_;  // by cycle
};

}  // namespace npu::timing
