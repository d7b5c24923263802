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
inline constexpr Tick kNever = ~Tick{0};

inline Tick to_ticks(uint64_t cycles) { return cycles << kTickBits; }
// The first cycle edge at or after `tick`.
inline uint64_t to_cycles(Tick tick) { return (tick + kTicksPerCycle - 1) >> kTickBits; }

// Something that acts when its time has come. `what` is its own note to itself.
class Actor {
 public:
  virtual ~Actor() = default;
  virtual void act(uint64_t what) = 0;
};

// Events lie in buckets of a cycle; only the present one is kept in order. Those further away than the ring
// of buckets wait in a heap.
class EventQueue {
 public:
  Tick now() const { return now_; }

  // For events of single bursts: nothing is allocated. `actor` must live until then.
  void at(Tick tick, Actor& actor, uint64_t what) { push({tick, sequence_++, &actor, what}); }

  void at(Tick tick, std::function<void()> action) {
    uint64_t slot = actions_.size();
    if (free_slots_.empty()) {
      actions_.push_back(std::move(action));
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
      actions_[slot] = std::move(action);
    }
    push({tick, sequence_++, nullptr, slot});
  }

  // Runs until nothing is left to do, or until `stop`, asked every few thousand events, says so: then false.
  bool run(const std::function<bool()>& stop) {
    for (uint64_t count = 1; next_bucket(); ++count) {
      if (count % kEventsBetweenStops == 0 && stop()) return false;
      std::pop_heap(present_.begin(), present_.end(), later);
      const Event event = present_.back();
      present_.pop_back();
      now_ = event.tick;
      if (event.actor) {
        event.actor->act(event.what);
        continue;
      }
      const std::function<void()> action = std::move(actions_[event.what]);  // it may schedule more
      actions_[event.what] = nullptr;
      free_slots_.push_back(event.what);
      action();
    }
    return true;
  }

 private:
  static constexpr uint64_t kEventsBetweenStops = 4096;  // well below a millisecond
  static constexpr uint64_t kBuckets = 1024;             // cycles; most events are nearer

  struct Event {
    Tick tick;
    uint64_t sequence;
    Actor* actor;   // or, when there is none,
    uint64_t what;  // the slot of its action
  };
  static bool later(const Event& a, const Event& b) {
    return a.tick != b.tick ? a.tick > b.tick : a.sequence > b.sequence;
  }
  void push(const Event& event) {
    if (event.tick < now_) throw std::logic_error("event scheduled in the past");
    const uint64_t cycle = event.tick >> kTickBits;
    if (cycle <= cycle_) {
      present_.push_back(event);
      std::push_heap(present_.begin(), present_.end(), later);
    } else if (cycle < cycle_ + kBuckets) {
      buckets_[cycle % kBuckets].push_back(event);
      ++in_buckets_;
    } else {
      far_.push_back(event);
      std::push_heap(far_.begin(), far_.end(), later);
    }
  }

  // Makes the next cycle with events the present one; false: there is none.
  bool next_bucket() {
    while (present_.empty()) {
      if (in_buckets_ == 0 && far_.empty()) return false;
      // With empty buckets nothing happens before the first of the events that are far away.
      cycle_ = in_buckets_ ? cycle_ + 1 : far_.front().tick >> kTickBits;
      std::vector<Event>& bucket = buckets_[cycle_ % kBuckets];
      in_buckets_ -= bucket.size();
      present_.swap(bucket);
      while (!far_.empty() && far_.front().tick >> kTickBits <= cycle_) {
        present_.push_back(far_.front());
        std::pop_heap(far_.begin(), far_.end(), later);
        far_.pop_back();
      }
      std::make_heap(present_.begin(), present_.end(), later);
    }
    return true;
  }

  std::vector<Event> present_;  // of cycle_ and before, a heap, the next event on top
  std::vector<std::vector<Event>> buckets_ = std::vector<std::vector<Event>>(kBuckets);
  std::vector<Event> far_;  // a heap
  uint64_t cycle_ = 0;
  size_t in_buckets_ = 0;
  std::vector<std::function<void()>> actions_;
  std::vector<uint64_t> free_slots_;
  Tick now_ = 0;
  uint64_t sequence_ = 0;
};

}  // namespace npu::timing
