// A resource that serves one request per slot of time, for fast fidelity: the first free slot from a moment
// on, so that gaps which a waiting request leaves are filled by later ones.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace npu::timing {

class FlowSlots {
 public:
  explicit FlowSlots(uint64_t slot) : slot_(slot), inverse_((uint64_t{1} << kInverseBits) / slot + 1) {}

  // Takes the first free slot that begins at `from` or later, or the one that `from` lies in; returns the
  // moment. Moments are below 2^40.
  uint64_t take(uint64_t from) {
    uint64_t at = static_cast<uint64_t>((static_cast<unsigned __int128>(from) * inverse_) >> kInverseBits);
    for (uint64_t number = at >> 6;; ++number, at = number << 6) {
      Word& word = words_[number % kWords];
      if (word.number < number) word = {number, 0};
      if (word.number > number) continue;  // long ago: full
      const uint64_t free = ~word.taken & (~uint64_t{0} << (at & 63));
      if (!free) continue;
      word.taken |= free & -free;
      const uint64_t begin = (number << 6 | static_cast<uint64_t>(std::countr_zero(free))) * slot_;
      return begin < from ? from : begin;
    }
  }

 private:
  static constexpr uint64_t kWords = 32;
  static constexpr int kInverseBits = 56;
  struct Word {
    uint64_t number = 0;  // of 64 slots
    uint64_t taken = 0;
  };
  uint64_t slot_, inverse_;
  std::array<Word, kWords> words_{};
};

}  // namespace npu::timing
