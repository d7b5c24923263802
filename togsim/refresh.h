// When a channel's banks are refreshed: all at once, or one after another.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bank_state.h"

namespace npu::timing {

class Refresh {
 public:
  explicit Refresh(const BankedParams& params)
      : t_(params.timing), banks_(params.bank_groups * params.banks_per_group) {
    interval_ = t_.refresh_per_bank ? std::max<Clock>(1, t_.t_refi_clocks / banks_) : t_.t_refi_clocks;
    // Channels take turns.
    next_ = t_.refresh ? interval_ - interval_ * params.unit / params.units : ~Clock{0};
  }

  Clock next() const { return next_; }
  uint64_t count() const { return count_; }
  // Whether the bank was last closed by a refresh and may not be opened before this clock.
  Clock until(uint32_t bank) const { return t_.refresh_per_bank ? bank == last_bank_ ? until_ : 0 : until_; }

  // All refreshes due by `now`. Those due long ago, while nothing was asked of the channel, have left no
  // trace but closed rows.
  void apply(BankState& banks, Clock now) {
    const uint64_t per_round = t_.refresh_per_bank ? banks_ : 1;
    if (now >= next_ && (now - next_) / interval_ > 2 * per_round) {
      const uint64_t rounds = (now - next_) / interval_ / per_round - 1;
      count_ += rounds * per_round;
      next_ += rounds * per_round * interval_;
    }
    for (; next_ <= now; next_ += interval_) {
      ++count_;
      if (t_.refresh_per_bank) {
        last_bank_ = next_bank_;
        next_bank_ = (next_bank_ + 1) % banks_;
        until_ = banks.close(last_bank_, next_) + t_.t_rfc_clocks;
        banks.block(last_bank_, until_);
        continue;
      }
      Clock begin = next_;
      for (uint32_t bank = 0; bank < banks_; ++bank) begin = std::max(begin, banks.close(bank, next_));
      until_ = begin + t_.t_rfc_clocks;
      for (uint32_t bank = 0; bank < banks_; ++bank) banks.block(bank, until_);
    }
  }

 private:
  DramTiming t_;
  uint32_t banks_;
  Clock interval_ = 0, next_ = 0, until_ = 0;
  uint32_t next_bank_ = 0, last_bank_ = 0;
  uint64_t count_ = 0;
};

}  // namespace npu::timing
