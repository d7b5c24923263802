// Simulated time and what happens in it. Events of equal time run in the order in which they were scheduled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
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
    events_.push_back({tick, sequence_++, std::move(action)});
    std::push_heap(events_.begin(), events_.end(), later);
  }

  // Runs until nothing is left to do.
  void run() {
    while (!events_.empty()) {
      std::pop_heap(events_.begin(), events_.end(), later);
      const Event event = std::move(events_.back());  // the action may schedule more
      events_.pop_back();
      now_ = event.tick;
      event.action();
    }
  }

 private:
  struct Event {
    Tick tick;
    uint64_t sequence;
    std::function<void()> action;
  };
  static bool later(const Event& a, const Event& b) {
    return std::pair(a.tick, a.sequence) > std::pair(b.tick, b.sequence);
  }
  std::vector<Event> events_;  // a heap, the next event on top
  Tick now_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace npu::timing
