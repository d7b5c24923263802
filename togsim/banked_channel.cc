// A channel of banks, command by command: first-ready first-come first-served over open rows. Reads come
// first; writes are drained in batches, when many wait or no read does. One command per clock.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bank_state.h"
#include "channel.h"
#include "refresh.h"

namespace npu::timing {
namespace {

class BankedChannel final : public Channel, public Actor {
 public:
  BankedChannel(EventQueue& events, std::string name, ChannelOwner& owner, const BankedParams& params)
      : stats_(std::move(name)),
        events_(events),
        owner_(owner),
        params_(params),
        banks_(params),
        refresh_(params) {
    check_timing(params);
    low_ = params.queue_entries / 4;
    high_ = std::max<size_t>(1, params.queue_entries * 3 / 4);
    for (Queue& queue : queues_) queue.banks.resize(banks_.count());
    used_.resize(banks_.count());
    refreshed_.resize(banks_.count());
  }

  bool full(bool store) const override { return queues_[store].size >= params_.queue_entries; }
  uint64_t waiting() const override { return queues_[0].size + queues_[1].size; }

  void push(const BurstRequest& request) override {
    const Clock now = clock();
    if (refresh_.due(request.bank, now)) refresh(request.bank, now);
    Queue& queue = queues_[request.store];
    // A write is answered when it is in the queue: reads of its bytes come later and would find it there.
    if (request.store) owner_.served(request.token, events_.now());
    ++queue.size;
    queue.wanted |= uint64_t{1} << request.bank;
    queue.banks[request.bank].entries.push_back({request.row, now, ++arrivals_, request.token});
    if (wake_ <= now) {
      planned_ = false;
      pick(request.bank, request.store);
      return;
    }
    pick(request.bank, request.store);
    // What is planned stays the best unless the new request can do something as early, or wants a row that
    // would be closed, or makes the channel turn around.
    const bool hit = banks_.hit(request.bank, request.row);
    const Clock ready = hit                         ? banks_.column_ready(request.bank, request.store)
                        : banks_.open(request.bank) ? banks_.precharge_ready(request.bank)
                                                    : banks_.activate_ready(request.bank);
    const Clock at = std::max({now, ready, next_command_});
    const bool turns =
        request.store != plan_.store && (request.store ? queues_[1].size >= high_ : queues_[0].size == 1);
    if (at <= plan_.at || (hit && request.bank == plan_.bank) || turns) planned_ = false;
    wake_at(at);
  }

  void act(uint64_t number) override {
    if (number != wake_number_) return;  // another moment was set since
    wake_ = kIdle;
    const Clock now = clock();
    if (!planned_) plan();
    if (plan_.at <= now) {
      const Command command = plan_;
      issue(command, now);
      if (waiting() == 0) {
        planned_ = false;
        return;
      }
      plan();
    }
    wake_at(std::max(plan_.at, now + 1));
  }

  Tick written() const override { return written_; }

  ComponentStats stats(Tick end) override {
    const auto cycles = [this](uint64_t clocks) { return to_cycles(clocks * params_.clock_ticks); };
    uint64_t used = 0;
    const auto put = [&](Counter& counter, uint64_t clocks) {
      counter.set(std::min(cycles(clocks), to_cycles(end) - used));
      used += counter.value();
    };
    put(busy_cycles_, busy_);
    put(row_stall_cycles_, stalls_[kRow]);
    put(group_stall_cycles_, stalls_[kGroup]);
    put(turnaround_stall_cycles_, stalls_[kTurnaround]);
    put(refresh_stall_cycles_, stalls_[kRefresh]);
    idle_cycles_.set(to_cycles(end) - used);
    refreshes_.set(refresh_.count());
    return {stats_.component(), stats_.values()};
  }

 private:
  static constexpr Clock kIdle = ~Clock{0};
  struct Entry {
    uint64_t row;
    Clock arrived;
    uint64_t age;  // number of its arrival
    uint32_t token;
  };
  struct BankQueue {
    std::vector<Entry> entries;  // oldest first
    uint32_t candidate = 0;      // the oldest one that hits the open row, else the oldest
    bool hit = false;
    uint64_t age = 0;  // of the candidate
  };
  struct Queue {
    std::vector<BankQueue> banks;
    uint64_t wanted = 0;  // banks with entries, one bit each
    size_t size = 0;
  };
  struct Command {
    enum class Kind : uint8_t { Column, Activate, Precharge } kind = Kind::Column;
    bool store = false;
    uint32_t bank = 0;
    uint64_t age = 0;  // of the entry that it serves
    Clock at = kIdle;
  };
  enum Cause : size_t { kRow, kGroup, kTurnaround, kRefresh, kCauses };

  void plan() {
    plan_ = choose();
    planned_ = true;
  }

  Clock clock() const { return (events_.now() + params_.clock_ticks - 1) / params_.clock_ticks; }

  void wake_at(Clock at) {
    if (at >= wake_) return;
    wake_ = at;
    events_.at(std::max(events_.now(), at * params_.clock_ticks), *this, ++wake_number_);
  }

  // What is due is seen when a bank is asked for again: before that nobody can tell.
  void refresh(uint32_t bank, Clock now) {
    const bool one = refresh_.per_bank();
    const bool wanted = one ? ((queues_[0].wanted | queues_[1].wanted) >> bank & 1) : waiting() > 0;
    const uint32_t first = one ? bank : 0, end = one ? bank + 1 : static_cast<uint32_t>(banks_.count());
    Clock ready = 0;
    for (uint32_t b = first; b < end; ++b) ready = std::max(ready, banks_.refresh_ready(b));
    const Clock used = wanted ? now : one ? used_[bank] : last_used_;
    const Clock until = refresh_.settle(bank, used, ready, now);
    if (until == 0) return;
    planned_ = false;
    for (uint32_t b = first; b < end; ++b) {
      banks_.refresh(b, until);
      refreshed_[b] = until;
      pick(b, false);
      pick(b, true);
    }
    if (waiting() && wake_ > now) wake_at(now);
  }

  // The request of a bank that comes first: an open row stays open as long as somebody wants it.
  void pick(uint32_t bank, bool store) {
    BankQueue& queue = queues_[store].banks[bank];
    queue.hit = false;
    queue.candidate = 0;
    for (uint32_t i = 0; i < queue.entries.size() && !queue.hit; ++i) {
      if (!banks_.hit(bank, queue.entries[i].row)) continue;
      queue.hit = true;
      queue.candidate = i;
    }
    if (!queue.entries.empty()) queue.age = queue.entries[queue.candidate].age;
  }

  // The command that can be issued first. Of equally early ones: a column command, then the oldest request's.
  Command choose() {
    const size_t reads = queues_[0].size, writes = queues_[1].size;
    const bool enough = batch_ >= params_.queue_entries;
    if (draining_ ? writes == 0 || (reads && (writes <= low_ || enough))
                  : writes && (reads == 0 || (writes >= high_ && enough))) {
      draining_ = !draining_;
      batch_ = 0;
    }
    const bool store = draining_;
    const Queue& queue = queues_[store];
    Command column{Command::Kind::Column, store, 0, 0, kIdle},
        row{Command::Kind::Activate, store, 0, 0, kIdle};
    for (uint64_t rest = queue.wanted; rest; rest &= rest - 1) {
      const auto bank = static_cast<uint32_t>(std::countr_zero(rest));
      const BankQueue& entries = queue.banks[bank];
      const bool open = banks_.open(bank);
      const Clock ready = entries.hit ? banks_.column_ready(bank, store)
                          : open      ? banks_.precharge_ready(bank)
                                      : banks_.activate_ready(bank);
      const Clock at = std::max(ready, next_command_);
      Command& best = entries.hit ? column : row;
      if (at > best.at || (at == best.at && entries.age > best.age)) continue;
      best = {entries.hit ? Command::Kind::Column
              : open      ? Command::Kind::Precharge
                          : Command::Kind::Activate,
              store, bank, entries.age, at};
    }
    // Rows for the other direction, in banks that this one does not need.
    const Queue& others = queues_[!store];
    for (uint64_t rest = others.wanted & ~queue.wanted; rest; rest &= rest - 1) {
      const auto bank = static_cast<uint32_t>(std::countr_zero(rest));
      const BankQueue& entries = others.banks[bank];
      if (entries.hit) continue;
      const bool open = banks_.open(bank);
      const Clock at =
          std::max(open ? banks_.precharge_ready(bank) : banks_.activate_ready(bank), next_command_);
      if (at >= row.at) continue;
      row = {open ? Command::Kind::Precharge : Command::Kind::Activate, !store, bank, entries.age, at};
    }
    return column.at <= row.at ? column : row;
  }

  void issue(const Command& command, Clock now) {
    const uint32_t bank = command.bank;
    Queue& queue = queues_[command.store];
    BankQueue& entries = queue.banks[bank];
    const Entry entry = entries.entries[entries.candidate];
    next_command_ = now + 1;
    if (command.kind != Command::Kind::Column) {
      if (command.kind == Command::Kind::Precharge) {
        banks_.precharge(bank, now);
        ++row_conflicts_;
      } else {
        banks_.activate(bank, entry.row, now);
        ++activates_;
      }
      pick(bank, false);
      pick(bank, true);
      return;
    }
    account(bank, entry.arrived, command.store, now);
    const bool was_full = full(command.store);
    entries.entries.erase(entries.entries.begin() + entries.candidate);
    --queue.size;
    if (entries.entries.empty()) queue.wanted &= ~(uint64_t{1} << bank);
    pick(bank, command.store);
    const Clock done = banks_.column(bank, command.store, now);
    used_[bank] = last_used_ = now;
    ++batch_;
    ++(command.store ? written_bursts_ : read_bursts_);
    if (command.store) written_ = done * params_.clock_ticks;
    if (!command.store) owner_.served(entry.token, done * params_.clock_ticks);
    if (was_full) owner_.has_room(command.store);
  }

  // What the data bus did since the column command before this one.
  void account(uint32_t bank, Clock arrived, bool store, Clock now) {
    const Clock from = std::max(next_slot_, arrived);  // before that nobody asked for anything
    const bool turned = std::exchange(last_store_, store) != store;
    busy_ += params_.timing.t_burst_clocks;
    next_slot_ = now + params_.timing.t_burst_clocks;
    if (now <= from) return;
    const Clock row = banks_.row_ready(bank, store);
    const Clock others = std::max(banks_.group_ready(bank, store), banks_.bus_ready(store));
    const Cause cause = refreshed_[bank] > from ? kRefresh
                        : row >= others         ? kRow
                        : turned                ? kTurnaround
                                                : kGroup;
    stalls_[cause] += now - from;
  }

  StatGroup stats_;
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};
  Counter activates_{stats_, "activates"};
  Counter row_conflicts_{stats_, "row_conflicts"};  // precharges, because another row was wanted
  Counter refreshes_{stats_, "refreshes"};
  Counter busy_cycles_{stats_, "busy_cycles"};
  Counter row_stall_cycles_{stats_, "row_stall_cycles"};
  Counter group_stall_cycles_{stats_, "bank_group_stall_cycles"};
  Counter turnaround_stall_cycles_{stats_, "turnaround_stall_cycles"};
  Counter refresh_stall_cycles_{stats_, "refresh_stall_cycles"};
  Counter idle_cycles_{stats_, "idle_cycles"};

  EventQueue& events_;
  ChannelOwner& owner_;
  BankedParams params_;
  BankState banks_;
  Refresh refresh_;
  std::vector<Clock> used_, refreshed_;  // by bank: last column command, end of the last refresh
  Clock last_used_ = 0;
  Queue queues_[2];  // reads, writes
  uint64_t arrivals_ = 0;
  size_t high_ = 0, low_ = 0;  // writes from which on, and down to which they are drained
  bool draining_ = false;
  uint64_t batch_ = 0;  // column commands since the bus was turned
  Tick written_ = 0;
  bool last_store_ = false;
  Clock next_command_ = 0;
  Clock next_slot_ = 0;  // first column command that the data bus has time for
  Clock wake_ = kIdle;
  uint64_t wake_number_ = 0;
  Command plan_;
  bool planned_ = false;  // plan_ is still the best
  uint64_t busy_ = 0;
  uint64_t stalls_[kCauses] = {};
};

}  // namespace

void check_timing(const BankedParams& params) {
  const DramTiming& t = params.timing;
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("DRAM timing: ") + what);
  };
  require(params.clock_ticks > 0, "the clock is 0");
  require(params.queue_entries > 0, "queue_entries is 0");
  require(params.bank_groups > 0 && params.banks_per_group > 0, "no banks");
  require(params.bank_groups * params.banks_per_group <= 64, "more than 64 banks");
  require(t.t_burst_clocks > 0, "t_burst is 0");
  require(t.t_ccd_s_clocks >= t.t_burst_clocks, "t_ccd_s is shorter than a burst");
  require(t.t_ccd_l_clocks >= t.t_ccd_s_clocks, "t_ccd_l is less than t_ccd_s");
  require(t.t_rrd_l_clocks >= t.t_rrd_s_clocks, "t_rrd_l is less than t_rrd_s");
  require(t.t_wtr_l_clocks >= t.t_wtr_s_clocks, "t_wtr_l is less than t_wtr_s");
  require(t.t_ras_clocks >= std::max(t.t_rcd_read_clocks, t.t_rcd_write_clocks), "t_ras is less than t_rcd");
  require(t.t_faw_clocks >= t.t_rrd_s_clocks, "t_faw is less than t_rrd_s");
  require(!t.refresh || t.t_refi_clocks > t.t_rfc_clocks, "t_refi is not longer than t_rfc");
}

std::unique_ptr<Channel> make_banked_channel(EventQueue& events, std::string name, ChannelOwner& owner,
                                             const BankedParams& params) {
  return std::make_unique<BankedChannel>(events, std::move(name), owner, params);
}

}  // namespace npu::timing
