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

  // From `now` on; what ended until then is counted.
  void begin_at(Tick now) {
    const uint64_t bin = now >> kBinBits;
    if (bin >= bin_ + kBins) {
      for (uint32_t& ended : ended_) done_ += std::exchange(ended, 0);
      bin_ = bin;
    }
    while (bin_ < bin) pass();
  }
  bool full() const { return begun_ - done_ >= places_; }
  // When the next one may begin; `until` or later: not before that.
  Tick free(Tick until) {
    while (full() && bin_ << kBinBits < until) pass();
    return bin_ << kBinBits;
  }
  void begin() { ++begun_; }
  void end(Tick at) {
    const uint64_t bin = (at + (Tick{1} << kBinBits) - 1) >> kBinBits;
    if (bin <= bin_) {
      ++done_;
    } else {  // what takes longer than the window is wide counts as that long
      ++ended_[std::min(bin, bin_ + kBins - 1) % kBins];
    }
  }

 private:
  static constexpr int kBinBits = kTickBits - 2;
  static constexpr uint64_t kBins = 1 << 15;
  void pass() {
    ++bin_;
    done_ += std::exchange(ended_[bin_ % kBins], 0);
  }
  uint64_t places_, begun_ = 0, done_ = 0;
  uint64_t bin_ = 0;             // everything that ended in it or before is counted in done_
  std::vector<uint32_t> ended_;  // by bin of time
};

}  // namespace npu::timing
