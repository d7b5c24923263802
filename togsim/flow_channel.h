// A DRAM channel of fast fidelity: one burst after another moves the clocks of bank, bank group, activates
// and data bus; nothing is scheduled. What the queue of a real controller reorders is covered by letting each
// resource fall behind only by its own work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "channel.h"
#include "flow_slots.h"
#include "flow_window.h"

namespace npu::timing {

class FlowChannel {
 public:
  FlowChannel(std::string name, const BankedParams& params);

  // A burst that arrives at `arrival`; returns when a read's last data are on the bus, or a write is in the
  // queue.
  Tick serve(uint32_t bank, uint64_t row, bool store, Tick arrival);
  Tick written() const { return written_; }  // the last write
  ComponentStats stats(Tick end);

 private:
  struct Bank {
    uint64_t row = kNoRow;  // none: closed
    Tick column = 0;        // first column command
    Tick precharge = 0;
    Tick activate = 0;
    Tick refresh = kNever;  // the next one
  };
  static constexpr uint64_t kNoRow = ~uint64_t{0};

  void open(Bank& bank, uint64_t row, Tick from);
  void refresh_bank(Bank& bank, Tick now);
  void refresh_all(Tick now);

  StatGroup stats_;
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};
  Counter activates_{stats_, "activates"};
  Counter row_conflicts_{stats_, "row_conflicts"};
  Counter refreshes_{stats_, "refreshes"};
  Counter busy_cycles_{stats_, "busy_cycles"};
  Counter idle_cycles_{stats_, "idle_cycles"};  // stalls are not told apart

  uint32_t banks_per_group_;
  bool per_bank_;
  // Figures in ticks.
  Tick burst_, cl_, cwl_, rcd_[2], rp_, ras_, wr_, rtp_, rfc_, interval_ = 0;
  Tick turn_[2];  // what the data bus loses by turning to reads, to writes
  uint64_t batch_;
  std::vector<Bank> banks_;
  std::vector<FlowSlots> groups_;
  FlowQueue queues_[2];  // of reads and of writes
  FlowSlots bus_, activate_slots_;
  Tick turn_debt_ = 0;          // not yet taken from the bus
  Tick next_refresh_ = kNever;  // of all banks
  uint64_t since_turn_ = 0;
  Tick written_ = 0;
  bool last_store_ = false;
};

}  // namespace npu::timing
