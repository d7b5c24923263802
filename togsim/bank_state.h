// Banks of one channel: which rows are open, and from which clock on each command is allowed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "channel.h"

namespace npu::timing {

using Clock = uint64_t;

class BankState {
 public:
  explicit BankState(const BankedParams& params)
      : t_(params.timing),
        banks_per_group_(params.banks_per_group),
        banks_(params.bank_groups * params.banks_per_group),
        groups_(params.bank_groups) {}

  bool open(uint32_t bank) const { return banks_[bank].open; }
  bool hit(uint32_t bank, uint64_t row) const { return banks_[bank].open && banks_[bank].row == row; }
  size_t count() const { return banks_.size(); }

  Clock row_ready(uint32_t bank, bool store) const { return store ? banks_[bank].write : banks_[bank].read; }
  Clock group_ready(uint32_t bank, bool store) const {
    const Group& group = groups_[bank / banks_per_group_];
    return store ? group.write : group.read;
  }
  Clock bus_ready(bool store) const { return store ? write_ : read_; }
  Clock column_ready(uint32_t bank, bool store) const {
    return std::max({row_ready(bank, store), group_ready(bank, store), bus_ready(store)});
  }
  Clock activate_ready(uint32_t bank) const {
    return std::max(
        {banks_[bank].activate, groups_[bank / banks_per_group_].activate, activate_, window_[window_next_]});
  }
  Clock precharge_ready(uint32_t bank) const { return banks_[bank].precharge; }

  void activate(uint32_t bank, uint64_t row, Clock at) {
    Bank& b = banks_[bank];
    b.open = true;
    b.row = row;
    b.read = at + t_.t_rcd_read_clocks;
    b.write = at + t_.t_rcd_write_clocks;
    b.precharge = at + t_.t_ras_clocks;
    activate_ = at + t_.t_rrd_s_clocks;
    groups_[bank / banks_per_group_].activate = at + t_.t_rrd_l_clocks;
    window_[window_next_] = at + t_.t_faw_clocks;
    window_next_ = (window_next_ + 1) % window_.size();
  }

  void precharge(uint32_t bank, Clock at) {
    banks_[bank].open = false;
    banks_[bank].activate = at + t_.t_rp_clocks;
  }

  // Returns the clock after the last data.
  Clock column(uint32_t bank, bool store, Clock at) {
    Bank& b = banks_[bank];
    Group& group = groups_[bank / banks_per_group_];
    if (store) {
      const Clock end = at + t_.t_cwl_clocks + t_.t_burst_clocks;
      write_ = at + t_.t_ccd_s_clocks;
      group.write = at + t_.t_ccd_l_clocks;
      read_ = std::max(read_, end + t_.t_wtr_s_clocks);
      group.read = std::max(group.read, end + t_.t_wtr_l_clocks);
      b.precharge = std::max(b.precharge, end + t_.t_wr_clocks);
      return end;
    }
    read_ = at + t_.t_ccd_s_clocks;
    group.read = at + t_.t_ccd_l_clocks;
    write_ = std::max(write_, at + t_.t_rtw_clocks);
    b.precharge = std::max(b.precharge, at + t_.t_rtp_clocks);
    return at + t_.t_cl_clocks + t_.t_burst_clocks;
  }

  // The first clock in which a refresh of the bank could begin, its row closed before.
  Clock refresh_ready(uint32_t bank) const {
    return banks_[bank].open ? banks_[bank].precharge + t_.t_rp_clocks : banks_[bank].activate;
  }
  void refresh(uint32_t bank, Clock until) {
    banks_[bank].open = false;
    banks_[bank].activate = std::max(banks_[bank].activate, until);
  }

 private:
  struct Bank {
    bool open = false;
    uint64_t row = 0;
    Clock activate = 0, precharge = 0, read = 0, write = 0;
  };
  struct Group {
    Clock activate = 0, read = 0, write = 0;
  };
  DramTiming t_;
  uint32_t banks_per_group_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  Clock activate_ = 0, read_ = 0, write_ = 0;
  std::array<Clock, 4> window_{};  // ends of the windows that the last four activates began
  size_t window_next_ = 0;
};

}  // namespace npu::timing
