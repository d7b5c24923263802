// Banks with open rows for fast fidelity: each burst takes the first time that its bank, its bank group, the
// activate window and the data bus have left.
#include <algorithm>
#include <utility>
#include <vector>

#include "flow_channel.h"
#include "flow_slots.h"
#include "flow_window.h"
#include "refresh.h"

namespace npu::timing {
namespace {

class BankedFlowChannel final : public FlowChannel {
 public:
  BankedFlowChannel(std::string name, const BankedParams& params);

  Tick serve(uint32_t bank, uint64_t row, bool store, Tick arrival) override;
  Tick written() const override { return written_; }
  ComponentStats stats(Tick end) override;

 private:
  struct Bank {
    uint64_t row = kNoRow;  // none: closed
    Tick column = 0;        // first column command
    Tick precharge = 0;
    Tick activate = 0;
    Tick used = 0;  // by the last column command
  };
  static constexpr uint64_t kNoRow = ~uint64_t{0};

  void open(Bank& bank, uint64_t row, Tick from);
  void refresh(uint32_t number, Tick now);

  StatGroup stats_;
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};
  Counter activates_{stats_, "activates"};
  Counter row_conflicts_{stats_, "row_conflicts"};
  Counter refreshes_{stats_, "refreshes"};
  Counter busy_cycles_{stats_, "busy_cycles"};
  Counter idle_cycles_{stats_, "idle_cycles"};  // stalls are not told apart

  uint32_t banks_per_group_;
  // Figures in ticks.
  Tick burst_, cl_, cwl_, rcd_[2], rp_, ras_, wr_, rtp_;
  Tick turn_[2];  // what the data bus loses by turning to reads, to writes
  uint64_t batch_;
  std::vector<Bank> banks_;
  std::vector<FlowSlots> groups_;
  FlowQueue queues_[2];  // of reads and of writes
  FlowSlots bus_, activate_slots_;
  Tick turn_debt_ = 0;  // not yet taken from the bus
  Refresh refresh_;
  Tick used_ = 0;
  uint64_t since_turn_ = 0;
  Tick written_ = 0;
  bool last_store_ = false;
};

BankedFlowChannel::BankedFlowChannel(std::string name, const BankedParams& params)
    : stats_(std::move(name)),
      banks_per_group_(params.banks_per_group),
      banks_(params.bank_groups * params.banks_per_group),
      groups_(params.bank_groups, FlowSlots(params.timing.t_ccd_l_clocks * params.clock_ticks)),
      queues_{FlowQueue(params.queue_entries), FlowQueue(params.queue_entries)},
      bus_(params.timing.t_ccd_s_clocks * params.clock_ticks),
      activate_slots_(std::max<Tick>(params.timing.t_rrd_s_clocks * params.clock_ticks,
                                     params.timing.t_faw_clocks * params.clock_ticks / 4)),
      refresh_(params, params.clock_ticks) {
  check_timing(params);
  const DramTiming& t = params.timing;
  const Tick clock = params.clock_ticks;
  burst_ = t.t_ccd_s_clocks * clock;
  cl_ = (t.t_cl_clocks + t.t_burst_clocks) * clock;
  cwl_ = (t.t_cwl_clocks + t.t_burst_clocks) * clock;
  rcd_[0] = t.t_rcd_read_clocks * clock;
  rcd_[1] = t.t_rcd_write_clocks * clock;
  rp_ = t.t_rp_clocks * clock;
  ras_ = t.t_ras_clocks * clock;
  wr_ = t.t_wr_clocks * clock;
  rtp_ = t.t_rtp_clocks * clock;
  const auto less = [](uint32_t a, uint32_t b) { return a > b ? a - b : 0; };
  turn_[0] = less(t.t_cwl_clocks + t.t_burst_clocks + t.t_wtr_s_clocks, t.t_ccd_s_clocks) * clock;
  turn_[1] = less(t.t_rtw_clocks, t.t_ccd_s_clocks) * clock;
  batch_ = std::max<uint64_t>(1, params.queue_entries / 2);
}

Tick BankedFlowChannel::serve(uint32_t number, uint64_t row, bool store, Tick arrival) {
  FlowQueue& queue = queues_[store];
  Bank& bank = banks_[number];
  const uint32_t group = number / banks_per_group_;
  const Tick from = std::max(arrival, queue.free());
  if (refresh_.due(number, from)) refresh(number, from);
  if (bank.row != row) open(bank, row, from);

  const Tick ready = groups_[group].take(std::max(from, bank.column + rcd_[store]));
  if (store != last_store_) {
    // A controller turns the bus around for a batch, not for every burst.
    turn_debt_ += turn_[store] * std::min(since_turn_, batch_) / batch_;
    for (; turn_debt_ >= burst_; turn_debt_ -= burst_) bus_.take(ready);
    since_turn_ = 0;
    last_store_ = store;
  }
  ++since_turn_;
  const Tick column = bus_.take(ready);
  queue.take(column);
  bank.used = std::max(bank.used, column);
  used_ = std::max(used_, column);
  if (store) {
    ++written_bursts_;
    bank.precharge = std::max(bank.precharge, column + cwl_ + wr_);
    written_ = std::max(written_, column + cwl_);
    return from;  // it is in the queue
  }
  ++read_bursts_;
  bank.precharge = std::max(bank.precharge, column + rtp_);
  return column + cl_;
}

void BankedFlowChannel::open(Bank& bank, uint64_t row, Tick from) {
  Tick ready = std::max(from, bank.activate);
  if (bank.row != kNoRow) {
    ready = std::max(from, bank.precharge) + rp_;
    ++row_conflicts_;
  }
  const Tick activate = activate_slots_.take(ready);
  ++activates_;
  bank.row = row;
  bank.column = activate;
  bank.precharge = activate + ras_;
  bank.activate = activate + ras_ + rp_;
}

void BankedFlowChannel::refresh(uint32_t number, Tick now) {
  const bool one = refresh_.per_bank();
  Tick ready = 0;
  const uint32_t first = one ? number : 0, end = one ? number + 1 : static_cast<uint32_t>(banks_.size());
  for (uint32_t b = first; b < end; ++b)
    ready = std::max(ready, banks_[b].row == kNoRow ? banks_[b].activate : banks_[b].precharge + rp_);
  const Tick until = refresh_.settle(number, one ? banks_[number].used : used_, ready, now);
  if (until == 0) return;
  for (uint32_t b = first; b < end; ++b) {
    banks_[b].row = kNoRow;
    banks_[b].activate = std::max(banks_[b].activate, until);
  }
}

ComponentStats BankedFlowChannel::stats(Tick end) {
  const uint64_t bursts = read_bursts_.value() + written_bursts_.value();
  busy_cycles_.set(std::min(to_cycles(bursts * burst_), to_cycles(end)));
  idle_cycles_.set(to_cycles(end) - busy_cycles_.value());
  refreshes_.set(refresh_.count());
  return {stats_.component(), stats_.values()};
}

}  // namespace

std::unique_ptr<FlowChannel> make_banked_flow_channel(std::string name, const BankedParams& params) {
  return std::make_unique<BankedFlowChannel>(std::move(name), params);
}

}  // namespace npu::timing
