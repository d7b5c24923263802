// Banks with open rows for fast fidelity: the order of requests is that of the exact channel (first-ready
// first-come first-served, writes in batches), but only column commands are chosen one after another. A row
// is opened as soon as it is known to be next, at the first time that the bank and the activate window have
// left.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "bank_state.h"
#include "flow_channel.h"
#include "flow_slots.h"
#include "refresh.h"

namespace npu::timing {
namespace {

class BankedFlowChannel final : public FlowChannel {
 public:
  BankedFlowChannel(std::string name, const BankedParams& params);

  void advance(Tick until, std::vector<FlowAnswer>& answers) override;
  bool idle() const override { return next_ == arrivals_.size() && size_[0] + size_[1] == 0; }
  Tick written() const override { return written_; }
  ComponentStats stats(Tick end) override;

 private:
  static constexpr uint64_t kNoRow = ~uint64_t{0};
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr Clock kIdle = ~Clock{0};
  struct Entry {
    uint64_t row = 0, age = 0;
    uint32_t job = 0, next = kNone;  // of the same bank
    uint16_t core = 0;
  };
  // A bank's requests of one direction, oldest first.
  struct List {
    uint32_t head = kNone, tail = kNone;
    uint32_t hit = kNone, before = kNone;  // the oldest that wants the bank's row, and the one before it
  };
  // Banks whose rows somebody wants, in the order in which the rows can be used.
  struct Candidate {
    Clock ready;
    uint64_t age;
    uint32_t bank, group;
  };
  struct Candidates {
    std::array<Candidate, 64> list;
    uint32_t count = 0;
  };
  struct Row {
    uint64_t number = kNoRow;            // none: closed
    Clock ready[2] = {}, precharge = 0;  // reads and writes of it, and its end
  };
  struct Bank {
    Row row;     // open or being opened
    Row before;  // open until `closes`
    Clock closes = 0;
    Clock activate = 0, used = 0;
    List lists[2];
  };

  Clock clock_at(Tick tick) const {
    return clock_shift_ >= 0 ? (tick + clock_ - 1) >> clock_shift_ : (tick + clock_ - 1) / clock_;
  }
  void admit(std::vector<FlowAnswer>& answers);
  void turn();
  void prepare(uint32_t number, bool store);
  void find(uint32_t number, bool store);
  void add(uint32_t number, bool store);
  void remove(uint32_t number, bool store);
  void drop(uint32_t i, bool store);
  void open(uint32_t number, uint64_t row);
  void refresh(uint32_t number);
  void serve(uint32_t which, Clock at, std::vector<FlowAnswer>& answers);

  StatGroup stats_;
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};
  Counter activates_{stats_, "activates"};
  Counter row_conflicts_{stats_, "row_conflicts"};
  Counter refreshes_{stats_, "refreshes"};
  Counter busy_cycles_{stats_, "busy_cycles"};
  Counter idle_cycles_{stats_, "idle_cycles"};  // stalls are not told apart

  DramTiming t_;
  Tick clock_;
  int clock_shift_ = -1;  // the clock is a power of two
  uint32_t group_shift_ = 0;
  size_t entries_, high_, low_;
  std::vector<Bank> banks_;
  std::vector<Clock> groups_[2];
  Clock bus_[2] = {};
  FlowSlots activates_left_;  // in quarters of a clock
  Refresh refresh_;
  std::vector<Entry> pool_;
  std::vector<uint32_t> free_;
  size_t size_[2] = {};
  uint64_t wanted_[2] = {}, hits_[2] = {};  // banks with requests, and with some for the open row
  Candidates candidates_[2];                // of hits_
  bool draining_ = false;
  size_t batch_ = 0;  // column commands since the bus was turned
  uint64_t arrivals_seen_ = 0;
  Clock now_ = 0, used_ = 0;
  uint64_t opened_ = 0, closed_ = 0, undone_ = 0;  // rows; some are kept after all
  Tick written_ = 0;
};

BankedFlowChannel::BankedFlowChannel(std::string name, const BankedParams& params)
    : stats_(std::move(name)),
      t_(params.timing),
      clock_(params.clock_ticks),
      group_shift_(static_cast<uint32_t>(std::countr_zero(params.banks_per_group))),
      entries_(params.queue_entries),
      high_(std::max<size_t>(1, params.queue_entries * 3 / 4)),
      low_(params.queue_entries / 4),
      banks_(params.bank_groups * params.banks_per_group),
      groups_{std::vector<Clock>(params.bank_groups), std::vector<Clock>(params.bank_groups)},
      activates_left_(std::max<uint64_t>(4 * params.timing.t_rrd_s_clocks, params.timing.t_faw_clocks)),
      refresh_(params),
      pool_(2 * params.queue_entries) {
  check_timing(params);
  if (std::has_single_bit(clock_)) clock_shift_ = std::countr_zero(clock_);
  for (uint32_t i = 0; i < pool_.size(); ++i) free_.push_back(i);
}

void BankedFlowChannel::advance(Tick until, std::vector<FlowAnswer>& answers) {
  const Clock end = clock_at(until);
  order();
  for (;;) {
    admit(answers);
    const bool more = next_ < arrivals_.size();
    const Clock arrival = more ? clock_at(arrivals_[next_].at) : kIdle;
    if (size_[0] + size_[1] == 0) {
      if (arrival >= end) break;
      now_ = arrival;
      continue;
    }
    turn();
    const bool store = draining_;
    const Clock from = std::max(now_, bus_[store]);
    const Candidates& candidates = candidates_[store];
    Clock best = kIdle;
    uint64_t age = 0;
    uint32_t which = 0;
    for (uint32_t i = 0; i < candidates.count; ++i) {
      const Candidate& candidate = candidates.list[i];
      if (candidate.ready > best) break;
      const Clock at = std::max({candidate.ready, groups_[store][candidate.group], from});
      if (at > best || (at == best && candidate.age > age)) continue;
      best = at;
      age = candidate.age;
      which = i;
    }
    if (arrival > now_ && arrival <= best) {  // it may come first
      if (arrival >= end) break;
      now_ = arrival;
      continue;
    }
    if (best >= end) break;
    serve(which, best, answers);
  }
  forget();
}

// Takes what has arrived into the queues. A request for a full one holds up those behind it.
void BankedFlowChannel::admit(std::vector<FlowAnswer>& answers) {
  for (; next_ < arrivals_.size(); ++next_) {
    const FlowRequest& request = arrivals_[next_];
    const bool store = request.store;
    const Clock arrived = clock_at(request.at);
    if (size_[store] >= entries_ || arrived > now_) return;
    if (refresh_.due(request.bank, now_)) refresh(request.bank);
    const uint32_t index = free_.back();
    free_.pop_back();
    pool_[index] = {request.row, ++arrivals_seen_, request.job, kNone, request.core};
    List& list = banks_[request.bank].lists[store];
    const uint32_t before = list.tail;
    (list.head == kNone ? list.head : pool_[list.tail].next) = index;
    list.tail = index;
    ++size_[store];
    const uint64_t bit = uint64_t{1} << request.bank;
    wanted_[store] |= bit;
    if (!(hits_[store] & bit)) {
      if (banks_[request.bank].row.number == request.row) {
        list.hit = index;
        list.before = before;
        add(request.bank, store);
      } else {
        prepare(request.bank, store);
      }
    }
    if (store)
      answers.push_back({arrived < now_ ? now_ * clock_ : request.at, request.job, request.core, true});
  }
}

// Writes are drained from three quarters of the queue, or when no read waits, down to a quarter.
void BankedFlowChannel::turn() {
  const size_t reads = size_[0], writes = size_[1];
  const bool enough = batch_ >= entries_;
  if (draining_ ? writes && (!reads || (writes > low_ && !enough))
                : !writes || (reads && (writes < high_ || !enough)))
    return;
  draining_ = !draining_;
  batch_ = 0;
  for (uint64_t rest = wanted_[draining_] & ~hits_[draining_]; rest; rest &= rest - 1)
    prepare(static_cast<uint32_t>(std::countr_zero(rest)), draining_);
}

// No request of the direction hits the bank's row: opens the row of the oldest one, unless the other
// direction is served and wants the bank.
void BankedFlowChannel::prepare(uint32_t number, bool store) {
  const uint64_t bit = uint64_t{1} << number;
  if (store != draining_ && (wanted_[!store] & bit)) return;
  Bank& bank = banks_[number];
  if (bank.closes > now_) {  // the row before is still open, and stays so if somebody wants it
    bank.closes = 0;
    bank.row = bank.before;
    ++undone_;
    find(number, store);
    if (hits_[store] & bit) return find(number, !store);
  }
  open(number, pool_[bank.lists[store].head].row);
  find(number, store);
  find(number, !store);
}

void BankedFlowChannel::find(uint32_t number, bool store) {
  if (!(wanted_[store] >> number & 1)) return;
  const Bank& bank = banks_[number];
  List& list = banks_[number].lists[store];
  if (hits_[store] >> number & 1) remove(number, store);
  list.before = kNone;
  for (list.hit = list.head; list.hit != kNone && pool_[list.hit].row != bank.row.number;
       list.hit = pool_[list.hit].next)
    list.before = list.hit;
  if (list.hit != kNone) add(number, store);
}

void BankedFlowChannel::add(uint32_t number, bool store) {
  Candidates& candidates = candidates_[store];
  const Clock ready = banks_[number].row.ready[store];
  uint32_t i = candidates.count++;
  for (; i > 0 && candidates.list[i - 1].ready > ready; --i) candidates.list[i] = candidates.list[i - 1];
  candidates.list[i] = {ready, pool_[banks_[number].lists[store].hit].age, number, number >> group_shift_};
  hits_[store] |= uint64_t{1} << number;
}

void BankedFlowChannel::remove(uint32_t number, bool store) {
  Candidates& candidates = candidates_[store];
  uint32_t i = 0;
  while (candidates.list[i].bank != number) ++i;
  drop(i, store);
}

void BankedFlowChannel::drop(uint32_t i, bool store) {
  Candidates& candidates = candidates_[store];
  hits_[store] &= ~(uint64_t{1} << candidates.list[i].bank);
  for (--candidates.count; i < candidates.count; ++i) candidates.list[i] = candidates.list[i + 1];
}

void BankedFlowChannel::open(uint32_t number, uint64_t row) {
  Bank& bank = banks_[number];
  Clock ready = std::max(now_, bank.activate);
  if (bank.row.number != kNoRow) {
    bank.before = bank.row;
    bank.closes = std::max(now_, bank.row.precharge);
    ready = bank.closes + t_.t_rp_clocks;
    ++closed_;
  }
  const Clock activate = (activates_left_.take(4 * ready) + 3) / 4;
  ++opened_;
  bank.row = {
      row, {activate + t_.t_rcd_read_clocks, activate + t_.t_rcd_write_clocks}, activate + t_.t_ras_clocks};
}

void BankedFlowChannel::refresh(uint32_t number) {
  const bool one = refresh_.per_bank();
  const uint64_t all = wanted_[0] | wanted_[1];
  const bool wanted = one ? all >> number & 1 : all != 0;
  const uint32_t first = one ? number : 0, end = one ? number + 1 : static_cast<uint32_t>(banks_.size());
  Clock ready = 0;
  for (uint32_t b = first; b < end; ++b)
    ready = std::max(ready, banks_[b].row.number == kNoRow ? banks_[b].activate
                                                           : banks_[b].row.precharge + t_.t_rp_clocks);
  const Clock used = wanted ? now_ : one ? banks_[number].used : used_;
  const Clock until = refresh_.settle(number, used, ready, now_);
  if (until == 0) return;
  for (uint32_t b = first; b < end; ++b) {
    banks_[b].row = {};
    banks_[b].closes = 0;
    banks_[b].activate = std::max(banks_[b].activate, until);
    for (const bool store : {false, true})
      if (hits_[store] >> b & 1) remove(b, store);
    for (const bool store : {draining_, !draining_})
      if (wanted_[store] >> b & 1 && !(hits_[store] >> b & 1)) prepare(b, store);
  }
}

void BankedFlowChannel::serve(uint32_t which, Clock at, std::vector<FlowAnswer>& answers) {
  const bool store = draining_;
  const uint32_t number = candidates_[store].list[which].bank;
  Bank& bank = banks_[number];
  List& list = bank.lists[store];
  Entry& entry = pool_[list.hit];
  now_ = used_ = bank.used = at;
  if (!store)
    answers.push_back({(at + t_.t_cl_clocks + t_.t_burst_clocks) * clock_, entry.job, entry.core, false});
  --size_[store];
  ++batch_;
  free_.push_back(list.hit);
  (list.before == kNone ? list.head : pool_[list.before].next) = entry.next;
  if (list.tail == list.hit) list.tail = list.before;

  const uint32_t group = number >> group_shift_;
  bus_[store] = at + t_.t_ccd_s_clocks;
  groups_[store][group] = at + t_.t_ccd_l_clocks;
  if (store) {
    const Clock end = at + t_.t_cwl_clocks + t_.t_burst_clocks;
    bus_[0] = std::max(bus_[0], end + t_.t_wtr_s_clocks);
    groups_[0][group] = std::max(groups_[0][group], end + t_.t_wtr_l_clocks);
    bank.row.precharge = std::max(bank.row.precharge, end + t_.t_wr_clocks);
    written_ = end * clock_;
    ++written_bursts_;
  } else {
    bus_[1] = std::max(bus_[1], at + t_.t_rtw_clocks);
    bank.row.precharge = std::max(bank.row.precharge, at + t_.t_rtp_clocks);
    ++read_bursts_;
  }

  // The next one that hits is behind this one.
  for (list.hit = entry.next; list.hit != kNone && pool_[list.hit].row != bank.row.number;
       list.hit = pool_[list.hit].next)
    list.before = list.hit;
  if (list.hit != kNone) {
    candidates_[store].list[which].age = pool_[list.hit].age;
    return;
  }
  const uint64_t bit = uint64_t{1} << number;
  drop(which, store);
  if (list.head != kNone) return prepare(number, store);
  wanted_[store] &= ~bit;
  if (wanted_[!store] & ~hits_[!store] & bit) prepare(number, !store);
}

ComponentStats BankedFlowChannel::stats(Tick end) {
  const uint64_t bursts = read_bursts_.value() + written_bursts_.value();
  busy_cycles_.set(std::min(to_cycles(bursts * t_.t_burst_clocks * clock_), to_cycles(end)));
  idle_cycles_.set(to_cycles(end) - busy_cycles_.value());
  activates_.set(opened_ - undone_);
  row_conflicts_.set(closed_ - undone_);
  refreshes_.set(refresh_.count());
  return {stats_.component(), stats_.values()};
}

}  // namespace

std::unique_ptr<FlowChannel> make_banked_flow_channel(std::string name, const BankedParams& params) {
  return std::make_unique<BankedFlowChannel>(std::move(name), params);
}

}  // namespace npu::timing
