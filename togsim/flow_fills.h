// Bursts that a shared L2 of fast fidelity reads from the DRAM: who asked for each, and which hits wait for
// it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "event_queue.h"

namespace npu::timing {

class FlowFills {
 public:
  struct Waiting {
    uint32_t core = 0, job = 0;
    Tick ready = 0;  // when the L2 could answer if it had the data
  };

  // A read that misses. Returns the number of its fill.
  uint32_t begin(uint64_t burst, const Waiting& first) {
    uint32_t number = static_cast<uint32_t>(fills_.size());
    if (free_.empty()) {
      fills_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    fills_[number] = {burst, kNever, {first}};
    by_burst_[burst] = number;
    return number;
  }

  // A read that hits: when it can be answered; kNever: `end` says so, the data's time is not known yet.
  Tick join(uint64_t burst, const Waiting& one) {
    const auto found = by_burst_.find(burst);
    if (found == by_burst_.end()) return one.ready;
    Fill& fill = fills_[found->second];
    if (fill.back == kNever) {
      fill.waiting.push_back(one);
      return kNever;
    }
    return std::max(one.ready, fill.back);
  }

  // The data of a fill are in the L2 at `back`. Returns who waits for them.
  std::vector<Waiting> end(uint32_t number, Tick back) {
    fills_[number].back = back;
    ended_.push_back(number);
    return std::exchange(fills_[number].waiting, {});
  }

  // Nothing that comes now or later waits for what has ended.
  void forget(Tick now) {
    std::erase_if(ended_, [&](uint32_t number) {
      const Fill& fill = fills_[number];
      if (fill.back > now) return false;
      const auto found = by_burst_.find(fill.burst);
      if (found != by_burst_.end() && found->second == number) by_burst_.erase(found);
      free_.push_back(number);
      return true;
    });
  }

 private:
  struct Fill {
    uint64_t burst = 0;
    Tick back = kNever;
    std::vector<Waiting> waiting;
  };
  std::vector<Fill> fills_;  // by number
  std::vector<uint32_t> free_, ended_;
  std::unordered_map<uint64_t, uint32_t> by_burst_;  // the last one of each
};

}  // namespace npu::timing
