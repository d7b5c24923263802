// Banks of one channel: which rows are open, and from which clock on each command is allowed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

#include "channel.h"

namespace npu::timing {

using Clock = uint64_t;

class BankState {
 public:
  explicit BankState(const BankedParams& params)
      : t_(params.timing), count_(params.bank_groups * params.banks_per_group) {
    if (count_ > banks_.size()) throw std::invalid_argument("DRAM timing: more than 64 banks");
    for (uint32_t bank = 0; bank < count_; ++bank) banks_[bank].group = bank / params.banks_per_group;
  }

  uint64_t open_banks() const { return open_; }  // one bit each
  bool open(uint32_t bank) const { return open_ >> bank & 1; }
  bool hit(uint32_t bank, uint64_t row) const { return open(bank) && banks_[bank].row == row; }
  size_t count() const { return count_; }

  Clock row_ready(uint32_t bank, bool store) const { return store ? banks_[bank].write : banks_[bank].read; }
  Clock group_ready(uint32_t bank, bool store) const {
    const Group& group = groups_[banks_[bank].group];
    return store ? group.write : group.read;
  }
  Clock bus_ready(bool store) const { return store ? write_ : read_; }
  Clock column_ready(uint32_t bank, bool store) const {
    return std::max({row_ready(bank, store), group_ready(bank, store), bus_ready(store)});
  }
  // An activate: what the bank, its group and the channel allow.
  Clock closed_ready(uint32_t bank) const { return banks_[bank].activate; }
  Clock group_activate_ready(uint32_t bank) const { return groups_[banks_[bank].group].activate; }
  Clock activates_ready() const { return std::max(activate_, window_[window_next_]); }
  Clock activate_ready(uint32_t bank) const {
    return std::max({closed_ready(bank), group_activate_ready(bank), activates_ready()});
  }
  Clock precharge_ready(uint32_t bank) const { return banks_[bank].precharge; }

  void activate(uint32_t bank, uint64_t row, Clock at) {
    Bank& b = banks_[bank];
    open_ |= uint64_t{1} << bank;
    b.row = row;
    b.read = at + t_.t_rcd_read_clocks;
    b.write = at + t_.t_rcd_write_clocks;
    b.precharge = at + t_.t_ras_clocks;
    activate_ = at + t_.t_rrd_s_clocks;
    groups_[b.group].activate = at + t_.t_rrd_l_clocks;
    window_[window_next_] = at + t_.t_faw_clocks;
    window_next_ = (window_next_ + 1) % window_.size();
  }

  void precharge(uint32_t bank, Clock at) {
    open_ &= ~(uint64_t{1} << bank);
    banks_[bank].activate = at + t_.t_rp_clocks;
  }

  // Returns the clock after the last data.
  Clock column(uint32_t bank, bool store, Clock at) {
    Bank& b = banks_[bank];
    Group& group = groups_[b.group];
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
    return open(bank) ? banks_[bank].precharge + t_.t_rp_clocks : banks_[bank].activate;
  }
  void refresh(uint32_t bank, Clock until) {
    open_ &= ~(uint64_t{1} << bank);
    banks_[bank].activate = std::max(banks_[bank].activate, until);
  }

 private:
  struct Bank {
    uint32_t group = 0;
    uint64_t row = 0;
    Clock activate = 0, precharge = 0, read = 0, write = 0;
  };
  struct Group {
    Clock activate = 0, read = 0, write = 0;
  };
  DramTiming t_;
  uint32_t count_;
  uint64_t open_ = 0;
  std::array<Bank, 64> banks_{};
  std::array<Group, 64> groups_{};
  Clock activate_ = 0, read_ = 0, write_ = 0;
  std::array<Clock, 4> window_{};  // ends of the windows that the last four activates began
  size_t window_next_ = 0;
};

}  // namespace npu::timing
