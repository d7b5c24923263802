// Banks with open rows for fast fidelity: the commands of the exact channel (first-ready first-come
// first-served, writes in batches, one command per clock), without its events. Requests and commands of a
// stretch of time are taken one after another; the next command of each kind is known, and looked for again
// only when something has happened to it.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "bank_state.h"
#include "flow_channel.h"
#include "flow_queue.h"
#include "refresh.h"

namespace npu::timing {
namespace {

class BankedFlowChannel final : public FlowChannel {
 public:
  BankedFlowChannel(std::string name, const BankedParams& params);

  void advance(Tick until, std::vector<FlowAnswer>& answers) override;
  bool idle() const override { return next_ == arrivals_.size() && !waiting(); }
  Tick written() const override { return written_; }
  ComponentStats stats(Tick end) override;

 private:
  static constexpr Clock kIdle = ~Clock{0};
  // The next command of a kind; of equally early ones that of the oldest request.
  struct Command {
    Clock at = kIdle;
    uint64_t rank = ~uint64_t{0};
    bool known = false;
    uint32_t bank() const { return rank & 63; }
    bool before(const Command& other) const { return at < other.at || (at == other.at && rank < other.rank); }
    void consider(const Command& other) {
      if (other.before(*this)) *this = other;
    }
  };
  // Rows for the direction that is not served come last.
  static constexpr int kRankBits = 44;
  static constexpr uint64_t kFar = (uint64_t{1} << (64 - kRankBits)) - 1;
  static constexpr uint64_t kLast = uint64_t{1} << (kRankBits - 1);

  Clock clock_at(Tick tick) const {
    return clock_shift_ >= 0 ? (tick + clock_ - 1) >> clock_shift_ : (tick + clock_ - 1) / clock_;
  }
  static uint64_t bit(uint32_t bank) { return uint64_t{1} << bank; }
  bool waiting() const { return queues_[0].size() + queues_[1].size() > 0; }

  // When a command can be issued for a bank; `from`: what holds for all banks.
  Clock column_from() const { return std::max(next_command_, banks_.bus_ready(draining_)); }
  Clock column_at(uint32_t bank, Clock from) const {
    return std::max({from, banks_.row_ready(bank, draining_), banks_.group_ready(bank, draining_)});
  }
  Clock close_at(uint32_t bank, Clock from) const { return std::max(from, banks_.precharge_ready(bank)); }
  Clock open_from() const { return std::max(next_command_, banks_.activates_ready()); }
  Clock open_at(uint32_t bank, Clock from) const {
    return std::max({from, banks_.closed_ready(bank), banks_.group_activate_ready(bank)});
  }
  // The first command of some banks; `last` is added to their ranks. Time from `next_command_` on and rank
  // are compared as one number, which has place for times below 2^20 clocks.
  template <typename At>
  Command first(uint64_t banks, const std::array<uint64_t, 64>& ranks, uint64_t last, At at) const {
    uint64_t best = ~uint64_t{0};
    for (uint64_t rest = banks; rest; rest &= rest - 1) {
      const auto bank = static_cast<uint32_t>(std::countr_zero(rest));
      const uint64_t time = std::min<uint64_t>(at(bank) - next_command_, kFar);
      best = std::min(best, time << kRankBits | ranks[bank]);
    }
    Command command{.known = true};
    if (best >> kRankBits < kFar) {
      const auto bank = static_cast<uint32_t>(best & 63);
      return {at(bank), ranks[bank] | last, true};
    }
    for (; banks; banks &= banks - 1) {
      const auto bank = static_cast<uint32_t>(std::countr_zero(banks));
      command.consider({at(bank), ranks[bank] | last, true});
    }
    return command;
  }

  // Banks that need a row: nobody of the direction that is served hits an open one, or nobody of the other
  // one, which has the bank to itself.
  uint64_t need_row() const {
    const FlowQueue &served = queues_[draining_], &other = queues_[!draining_];
    return (served.wanted() & ~served.hits()) | (other.wanted() & ~other.hits() & ~served.wanted());
  }

  Clock admit(std::vector<FlowAnswer>& answers);
  bool turn();
  void look(uint32_t bank);
  void refresh(uint32_t bank);
  void choose();
  void close();
  void open();
  void serve(std::vector<FlowAnswer>& answers);
  void forget_choices() { column_.known = close_.known = open_.known = false; }

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
  size_t entries_, high_, low_;
  BankState banks_;
  Refresh refresh_;
  FlowQueue queues_[2];           // reads, writes
  std::array<Clock, 64> used_{};  // last column command
  Command column_, close_, open_;
  bool draining_ = false;
  size_t batch_ = 0;  // column commands since the bus was turned
  uint64_t arrivals_seen_ = 0;
  Clock now_ = 0, last_used_ = 0, next_command_ = 0;
  Tick written_ = 0;
};

BankedFlowChannel::BankedFlowChannel(std::string name, const BankedParams& params)
    : stats_(std::move(name)),
      t_(params.timing),
      clock_(params.clock_ticks),
      entries_(params.queue_entries),
      high_(std::max<size_t>(1, params.queue_entries * 3 / 4)),
      low_(params.queue_entries / 4),
      banks_(params),
      refresh_(params),
      queues_{FlowQueue(params.queue_entries), FlowQueue(params.queue_entries)} {
  check_timing(params);
  if (std::has_single_bit(clock_)) clock_shift_ = std::countr_zero(clock_);
}

void BankedFlowChannel::advance(Tick until, std::vector<FlowAnswer>& answers) {
  const Clock end = clock_at(until);
  order();
  Clock arrival = admit(answers);
  for (;;) {
    choose();
    const Command& row = close_.before(open_) ? close_ : open_;
    const Command& command = column_.at <= row.at ? column_ : row;
    if (std::min(arrival, command.at) >= end) break;
    if (arrival <= command.at) {
      now_ = arrival;
      next_command_ = std::max(next_command_, now_);
      arrival = admit(answers);
      continue;
    }
    now_ = command.at;
    next_command_ = now_ + 1;
    // What could have been issued now has its turn with others later.
    column_.known &= column_.at > now_;
    close_.known &= close_.at > now_;
    open_.known &= open_.at > now_;
    if (&command == &column_) {
      serve(answers);
      if (arrival == kIdle) arrival = admit(answers);
    } else if (&command == &close_) {
      close();
    } else {
      open();
    }
  }
  forget();
}

// Takes what has arrived into the queues; a request for a full one holds up those behind it. Returns when the
// next one arrives, if it finds room.
Clock BankedFlowChannel::admit(std::vector<FlowAnswer>& answers) {
  for (; next_ < arrivals_.size(); ++next_) {
    const FlowRequest& request = arrivals_[next_];
    const bool store = request.store;
    const uint32_t bank = request.bank;
    FlowQueue& queue = queues_[store];
    if (queue.full()) return kIdle;
    const Clock arrived = clock_at(request.at);
    if (arrived > now_) return arrived;
    if (refresh_.due(bank, now_)) refresh(bank);
    const uint64_t wanted = queue.wanted(), hits = queue.hits();
    queue.push(request, ++arrivals_seen_, banks_.hit(bank, request.row));
    if (store)
      answers.push_back({arrived < now_ ? now_ * clock_ : request.at, request.job, request.core, true});
    if (queues_[!draining_].size() > 0 && turn()) continue;
    if (wanted != queue.wanted() || hits != queue.hits()) look(bank);
  }
  return kIdle;
}

// Asked when somebody waits for the other direction. Writes are drained from three quarters of the queue, or
// when no read waits, down to a quarter.
bool BankedFlowChannel::turn() {
  const size_t reads = queues_[0].size(), writes = queues_[1].size();
  const bool enough = batch_ >= entries_;
  if (draining_ ? writes && (!reads || (writes > low_ && !enough)) : reads && (writes < high_ || !enough))
    return false;
  draining_ = !draining_;
  batch_ = 0;
  forget_choices();
  return true;
}

// Something else is wanted of a bank than before.
void BankedFlowChannel::look(uint32_t bank) {
  if (close_.bank() == bank) close_.known = false;
  if (queues_[draining_].hits() & bit(bank))
    column_.consider({column_at(bank, column_from()), queues_[draining_].oldest_hits()[bank], column_.known});
  if (!(need_row() & bit(bank))) return;
  const bool served = queues_[draining_].wanted() & bit(bank);
  const uint64_t rank =
      served ? queues_[draining_].oldest()[bank] : queues_[!draining_].oldest()[bank] | kLast;
  if (banks_.open(bank))
    close_.consider({close_at(bank, next_command_), rank, close_.known});
  else
    open_.consider({open_at(bank, open_from()), rank, open_.known});
}

void BankedFlowChannel::refresh(uint32_t number) {
  const bool one = refresh_.per_bank();
  const uint64_t all = queues_[0].wanted() | queues_[1].wanted();
  const uint32_t begin = one ? number : 0, end = one ? number + 1 : static_cast<uint32_t>(banks_.count());
  Clock ready = 0;
  for (uint32_t bank = begin; bank < end; ++bank) ready = std::max(ready, banks_.refresh_ready(bank));
  const bool wanted = one ? all & bit(number) : all != 0;
  const Clock used = wanted ? now_ : one ? used_[number] : last_used_;
  const Clock until = refresh_.settle(number, used, ready, now_);
  if (until == 0) return;
  forget_choices();
  for (uint32_t bank = begin; bank < end; ++bank) {
    banks_.refresh(bank, until);
    for (FlowQueue& queue : queues_) queue.closed(bank);
  }
}

void BankedFlowChannel::choose() {
  const FlowQueue &served = queues_[draining_], &other = queues_[!draining_];
  if (!column_.known) {
    const auto at = [this, from = column_from()](uint32_t bank) { return column_at(bank, from); };
    column_ = first(served.hits(), served.oldest_hits(), 0, at);
  }
  if (close_.known && open_.known) return;
  const uint64_t need = need_row();
  const auto row = [&](uint64_t banks, auto at) {
    Command command = first(banks & served.wanted(), served.oldest(), 0, at);
    if (const uint64_t rest = banks & ~served.wanted())
      command.consider(first(rest, other.oldest(), kLast, at));
    return command;
  };
  if (!close_.known)
    close_ = row(need & banks_.open_banks(), [this](uint32_t bank) { return close_at(bank, next_command_); });
  if (!open_.known)
    open_ = row(need & ~banks_.open_banks(),
                [this, from = open_from()](uint32_t bank) { return open_at(bank, from); });
}

void BankedFlowChannel::close() {
  const uint32_t bank = close_.bank();
  banks_.precharge(bank, now_);
  ++row_conflicts_;
  for (FlowQueue& queue : queues_) queue.closed(bank);
  open_.consider({open_at(bank, open_from()), close_.rank, open_.known});
  close_.known = false;
}

void BankedFlowChannel::open() {
  const uint32_t bank = open_.bank();
  const bool store = open_.rank & kLast ? !draining_ : draining_;
  const uint64_t row = queues_[store].oldest_row(bank);
  banks_.activate(bank, row, now_);
  ++activates_;
  open_.known = false;
  for (FlowQueue& queue : queues_) queue.opened(bank, row);
  if (store == draining_) look(bank);
}

void BankedFlowChannel::serve(std::vector<FlowAnswer>& answers) {
  const bool store = draining_;
  const uint32_t bank = column_.bank();
  const FlowQueue::Entry& entry = queues_[store].take(bank);
  const Tick done = banks_.column(bank, store, now_) * clock_;
  used_[bank] = last_used_ = now_;
  ++batch_;
  column_.known = false;
  if (store) {
    written_ = done;
    ++written_bursts_;
  } else {
    answers.push_back({done, entry.job, entry.core, false});
    ++read_bursts_;
  }
  if (queues_[!store].size() > 0 && turn()) return;
  if (!(queues_[store].hits() & bit(bank))) look(bank);
}

ComponentStats BankedFlowChannel::stats(Tick end) {
  const uint64_t bursts = read_bursts_.value() + written_bursts_.value();
  busy_cycles_.set(std::min(to_cycles(bursts * t_.t_burst_clocks * clock_), to_cycles(end)));
  idle_cycles_.set(to_cycles(end) - busy_cycles_.value());
  refreshes_.set(refresh_.count());
  return {stats_.component(), stats_.values()};
}

}  // namespace

std::unique_ptr<FlowChannel> make_banked_flow_channel(std::string name, const BankedParams& params) {
  return std::make_unique<BankedFlowChannel>(std::move(name), params);
}

}  // namespace npu::timing
