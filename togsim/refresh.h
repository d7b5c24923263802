// When the banks of a channel are refreshed: each on its own, or all at once. A due refresh waits until
// nobody has used the bank for a while, but no more than eight of them wait (the limit of the JEDEC
// standards).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "channel.h"

namespace npu::timing {

class Refresh {
 public:
  // Times are in clocks, or in ticks if `scale` is the ticks of a clock.
  explicit Refresh(const BankedParams& params, uint64_t scale = 1)
      : per_bank_(params.timing.refresh_per_bank),
        on_(params.timing.refresh),
        rfc_(params.timing.t_rfc_clocks * scale),
        quiet_(kQuietClocks * scale) {
    const uint64_t turns = per_bank_ ? params.bank_groups * params.banks_per_group : 1;
    const uint64_t step = std::max<uint64_t>(1, params.timing.t_refi_clocks / turns) * scale;
    interval_ = step * turns;
    const uint64_t first = step - step * params.unit / params.units;  // channels take turns
    for (uint64_t turn = 0; turn < turns; ++turn) due_.push_back(first + step * turn);
  }

  bool per_bank() const { return per_bank_; }
  uint64_t count() const { return count_; }
  bool due(uint32_t bank, uint64_t now) const { return on_ && now >= due_[per_bank_ ? bank : 0]; }

  // Before a request for `bank` that comes now, to a bank (or channel) that was used last at `last_used`, and
  // can begin a refresh from `ready` on: until when it is being refreshed; 0: it was not refreshed since
  // then.
  uint64_t settle(uint32_t bank, uint64_t last_used, uint64_t ready, uint64_t now) {
    uint64_t& due = due_[per_bank_ ? bank : 0];
    if (!on_ || now < due) return 0;
    uint64_t owed = (now - due) / interval_ + 1, until = 0;
    if (owed > 2 * kMostPostponed) {  // a long rest: all but the last few were done in it
      const uint64_t done = last_used + 2 * interval_ < now ? owed - 2 : 0;
      due += done * interval_;
      owed -= done;
      count_ += done;
    }
    for (uint64_t begin = std::max({due, last_used + quiet_, ready}); owed > 0;
         begin = std::max(until, due)) {
      if (begin >= now && owed < kMostPostponed) break;
      until = begin + rfc_;
      due += interval_;
      --owed;
      ++count_;
    }
    return until;
  }

 private:
  static constexpr uint64_t kQuietClocks = 64;
  static constexpr uint64_t kMostPostponed = 8;
  bool per_bank_, on_;
  uint64_t rfc_, quiet_, interval_ = 0;
  std::vector<uint64_t> due_;  // by bank, or one for all
  uint64_t count_ = 0;
};

}  // namespace npu::timing
