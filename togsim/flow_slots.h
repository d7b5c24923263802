// A resource that serves one request per slot of time, for fast fidelity: the first free slot from a moment
// on, so that gaps which a waiting request leaves are filled by later ones.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "event_queue.h"

namespace npu::timing {

class FlowSlots {
 public:
  explicit FlowSlots(Tick slot_ticks) : slot_(slot_ticks) {}

  // Takes the first free slot that begins at `from` or later, or the one that `from` lies in; returns the
  // moment.
  Tick take(Tick from) {
    uint64_t at = from / slot_;
    for (uint64_t number = at >> 6;; ++number, at = number << 6) {
      Word& word = words_[number % kWords];
      if (word.number < number) word = {number, 0};
      if (word.number > number) continue;  // long ago: full
      const uint64_t free = ~word.taken & (~uint64_t{0} << (at & 63));
      if (!free) continue;
      word.taken |= free & -free;
      const Tick begin = (number << 6 | static_cast<uint64_t>(std::countr_zero(free))) * slot_;
      return begin < from ? from : begin;
    }
  }

 private:
  static constexpr uint64_t kWords = 32;
  struct Word {
    uint64_t number = 0;  // of 64 slots
    uint64_t taken = 0;
  };
  Tick slot_;
  std::array<Word, kWords> words_{};
};

}  // namespace npu::timing
