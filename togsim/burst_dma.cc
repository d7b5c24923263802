// A DMA engine that sends every burst on its own: descriptors are decoded one after another, bursts follow
// each other by address, at the rate of the scratchpad side, as long as fewer than the limit are on their
// way. Transfers overlap and are ordered by nothing but their tags.
#include "burst_dma.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "burst_count.h"

namespace npu::timing {

BurstDma::BurstDma(EventQueue& events, uint32_t core, const BurstDmaPlace& place, const DmaParams& params)
    : stats_("dma " + std::to_string(core)), events_(events), core_(core), place_(place), params_(params) {
  if (!params.scratchpad_bytes_per_cycle) throw std::invalid_argument("scratchpad_bytes_per_cycle is 0");
  if (!params.max_outstanding) throw std::invalid_argument("max_outstanding is 0");
  place.network->attach(core, *this);
}

void BurstDma::start(const Transfer& transfer, std::function<void()> done) {
  decoder_free_ = std::max(events_.now(), decoder_free_) + to_ticks(params_.issue_cycles);
  const uint64_t bursts = count_bursts(transfer, place_.burst_bytes);
  ++totals_.transfers;
  totals_.scratchpad_bytes += transfer.scratchpad_bytes;
  (transfer.store ? totals_.bytes_written : totals_.bytes_read) += transfer.dram_bytes;
  (transfer.store ? totals_.bursts_written : totals_.bursts_read) += bursts;
  const Tick scratchpad =
      (transfer.scratchpad_bytes << kTickBits) / params_.scratchpad_bytes_per_cycle;  // time of its port
  if (bursts == 0) {  // all fill, or scratchpad to scratchpad
    local_free_ = std::max(decoder_free_, local_free_) + to_ticks(to_cycles(scratchpad));
    events_.at(local_free_, std::move(done));
    return;
  }
  Job job{BurstWalk(transfer, place_.burst_bytes),
          transfer.store,
          decoder_free_,
          std::max<Tick>(1, scratchpad / bursts),
          bursts,
          bursts,
          std::move(done)};
  uint32_t token = static_cast<uint32_t>(jobs_.size());
  if (free_.empty()) {
    jobs_.push_back(std::move(job));
  } else {
    token = free_.back();
    free_.pop_back();
    jobs_[token] = std::move(job);
  }
  queue_.push_back(token);
  if (queue_.size() == 1) pump();
}

void BurstDma::act(uint64_t plan) {
  if (plan == plan_) pump();
}

void BurstDma::wake_at(Tick tick) { events_.at(tick, *this, ++plan_); }

// Sends what may be sent within this cycle.
void BurstDma::pump() {
  const Tick now = events_.now();
  while (!queue_.empty()) {
    const uint32_t token = queue_.front();
    Job& job = jobs_[token];
    if (job.ready > now) {
      enter(outstanding_ ? State::Waiting : State::Decoding);
      return wake_at(job.ready);
    }
    next_send_ = std::max(next_send_, now);
    if (next_send_ >= now + kTicksPerCycle) {
      enter(State::Sending);
      return wake_at(next_send_);
    }
    if (outstanding_ == params_.max_outstanding) return enter(State::AtLimit);
    if (pending_.count == 0) pending_ = job.walk.next(~uint64_t{0});
    const BurstLocation at = place_.map->locate(pending_.first);
    const Packet packet{at.row,    pending_.first,
                        at.unit,   at.bank,
                        core_,     place_.first_memory_node + at.unit,
                        token,     job.store ? place_.burst_bytes : 0,
                        job.store, false,
                        now};
    if (!place_.network->send(packet)) return enter(State::NetworkFull);
    enter(State::Sending);
    ++pending_.first;
    --pending_.count;
    ++outstanding_;
    next_send_ += job.burst_ticks;
    if (--job.unsent == 0) queue_.pop_front();
  }
  enter(outstanding_ ? State::Waiting : State::Idle);
}

bool BurstDma::receive(const Packet& packet) {
  Job& job = jobs_[packet.token];
  --outstanding_;
  (job.store ? write_latency_ : read_latency_) += events_.now() - packet.sent;
  // Stores have left the scratchpad when they were sent.
  if (!job.store) port_free_ = std::max(port_free_, events_.now()) + job.burst_ticks;
  if (--job.pending == 0) {
    events_.at(job.store ? events_.now() : port_free_, std::move(job.done));
    free_.push_back(packet.token);
  }
  if (state_ == State::AtLimit) {
    pump();
  } else if (outstanding_ == 0 && state_ == State::Waiting) {
    enter(queue_.empty() ? State::Idle : State::Decoding);
  }
  return true;
}

void BurstDma::can_send(bool) {
  if (state_ == State::NetworkFull) pump();
}

void BurstDma::enter(State state) {
  if (state == state_) return;
  times_[static_cast<size_t>(state_)] += events_.now() - since_;
  since_ = events_.now();
  state_ = state;
}

std::string BurstDma::waiting_for() const {
  if (!outstanding_ && queue_.empty()) return "";
  std::string text = std::to_string(outstanding_) + " bursts on their way";
  if (state_ == State::NetworkFull) text += ", the next one waits for room in the network";
  if (state_ == State::AtLimit) text += ", which is the limit";
  return text;
}

ComponentStats BurstDma::stats(Tick end) {
  times_[static_cast<size_t>(state_)] += end - std::min(since_, end);
  since_ = end;
  uint64_t used = 0;
  const auto put = [&](Counter& counter, State state) {
    counter.set(std::min(to_cycles(times_[static_cast<size_t>(state)]), to_cycles(end) - used));
    used += counter.value();
  };
  put(decode_cycles_, State::Decoding);
  put(send_cycles_, State::Sending);
  put(limit_cycles_, State::AtLimit);
  put(network_cycles_, State::NetworkFull);
  put(wait_cycles_, State::Waiting);
  idle_cycles_.set(to_cycles(end) - used);
  transfers_.set(totals_.transfers);
  read_latency_sum_.set(to_cycles(read_latency_));
  write_latency_sum_.set(to_cycles(write_latency_));
  read_bursts_.set(totals_.bursts_read);
  written_bursts_.set(totals_.bursts_written);
  return {stats_.component(), stats_.values()};
}

}  // namespace npu::timing
