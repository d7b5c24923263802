// How many bursts an engine has on their way, for fast fidelity: what leaves may leave in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "event_queue.h"

namespace npu::timing {

// Thousands of places, to a quarter of a cycle.
class FlowWindow {
 public:
  explicit FlowWindow(uint64_t places) : places_(places), ended_(kBins) {}

  // From `now` on; what ended before is counted.
  void begin_at(Tick now) {
    const uint64_t bin = now >> kBinBits;
    if (bin >= bin_ + kBins) {
      for (uint32_t& ended : ended_) done_ += std::exchange(ended, 0);
      bin_ = bin;
    }
    while (bin_ < bin) pass();
  }
  // When the next one may begin; `until` or later: not before that.
  Tick free(Tick until) {
    while (begun_ - done_ >= places_ && bin_ << kBinBits < until) pass();
    return bin_ << kBinBits;
  }
  void begin() { ++begun_; }
  void end(Tick at) {
    // What takes longer than the window is wide counts as that long.
    const uint64_t bin = std::clamp((at + (Tick{1} << kBinBits) - 1) >> kBinBits, bin_, bin_ + kBins - 1);
    ++ended_[bin % kBins];
  }

 private:
  static constexpr int kBinBits = kTickBits - 2;
  static constexpr uint64_t kBins = 1 << 15;
  void pass() {
    done_ += std::exchange(ended_[bin_ % kBins], 0);
    ++bin_;
  }
  uint64_t places_, begun_ = 0, done_ = 0;
  uint64_t bin_ = 0;             // everything that ended before it is counted in done_
  std::vector<uint32_t> ended_;  // by bin of time
};

}  // namespace npu::timing
