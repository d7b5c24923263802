// Simulated time and what happens in it. Events of equal time run in the order in which they were scheduled.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

namespace npu::timing {

// Time is counted in fractions of a core cycle, so that any bandwidth gives exact sums.
using Tick = uint64_t;
inline constexpr int kTickBits = 20;
inline constexpr Tick kTicksPerCycle = Tick{1} << kTickBits;

inline Tick to_ticks(uint64_t cycles) { return cycles << kTickBits; }
// The first cycle edge at or after `tick`.
inline uint64_t to_cycles(Tick tick) { return (tick + kTicksPerCycle - 1) >> kTickBits; }

class EventQueue {
 public:
  Tick now() const { return now_; }

  void at(Tick tick, std::function<void()> action) {
    if (tick < now_) throw std::logic_error("event scheduled in the past");
    events_.push({tick, sequence_++, std::move(action)});
  }

  // Runs until nothing is left to do.
  void run() {
    while (!events_.empty()) {
      // The action may schedule more, so it leaves the queue first. `top` is const only for the order's sake.
      auto action = std::move(const_cast<Event&>(events_.top()).action);
      now_ = events_.top().tick;
      events_.pop();
      action();
    }
  }

 private:
  struct Event {
    Tick tick;
    uint64_t sequence;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return std::pair(tick, sequence) > std::pair(other.tick, other.sequence);  // smallest on top
    }
  };
  std::priority_queue<Event> events_;
  Tick now_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace npu::timing
