#include "flow_dma.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "burst_count.h"

namespace npu::timing {

FlowDma::FlowDma(EventQueue& events, uint32_t core, FlowPath& path, uint32_t burst_bytes,
                 const DmaParams& params)
    : stats_("dma " + std::to_string(core)),
      events_(events),
      core_(core),
      path_(path),
      burst_bytes_(burst_bytes),
      params_(params),
      window_(params.max_outstanding) {
  if (!params.scratchpad_bytes_per_cycle) throw std::invalid_argument("scratchpad_bytes_per_cycle is 0");
  if (!params.max_outstanding) throw std::invalid_argument("max_outstanding is 0");
}

void FlowDma::start(const Transfer& transfer, std::function<void()> done) {
  decoder_free_ = std::max(events_.now(), decoder_free_) + to_ticks(params_.issue_cycles);
  const uint64_t bursts = count_bursts(transfer, burst_bytes_);
  ++totals_.transfers;
  totals_.scratchpad_bytes += transfer.scratchpad_bytes;
  (transfer.store ? totals_.bytes_written : totals_.bytes_read) += transfer.dram_bytes;
  (transfer.store ? totals_.bursts_written : totals_.bursts_read) += bursts;
  const Tick scratchpad = (transfer.scratchpad_bytes << kTickBits) / params_.scratchpad_bytes_per_cycle;
  if (bursts == 0) {  // all fill, or scratchpad to scratchpad
    local_free_ = std::max(decoder_free_, local_free_) + to_ticks(to_cycles(scratchpad));
    events_.at(local_free_, std::move(done));
    return;
  }
  Job job{BurstWalk(transfer, burst_bytes_),
          transfer.store,
          decoder_free_,
          std::max<Tick>(1, scratchpad / bursts),
          0,
          bursts,
          bursts,
          std::move(done)};
  uint32_t number = static_cast<uint32_t>(jobs_.size());
  if (free_.empty()) {
    jobs_.push_back(std::move(job));
  } else {
    number = free_.back();
    free_.pop_back();
    jobs_[number] = std::move(job);
  }
  queue_.push_back(number);
  path_.wake(core_);
}

void FlowDma::send(Tick until) {
  window_.begin_at(events_.now());
  while (!queue_.empty()) {
    const uint32_t number = queue_.front();
    Job& job = jobs_[number];
    pump_ = std::max({pump_, job.ready, events_.now()});
    bool more = true;
    while (more && job.unsent) {
      size_t count = 0;
      for (; count < kBatch && job.unsent; ++count, --job.unsent) {
        if (count > 0 && window_.full()) break;  // some may be answered at once
        // What has its turn within a cycle is sent at once, as the exact engine does.
        pump_ = std::max(pump_, window_.free(until));
        next_send_ = std::max(next_send_, pump_);
        if (next_send_ >= pump_ + kTicksPerCycle) pump_ = next_send_;
        more = pump_ < until;
        if (!more) break;
        if (pending_.count == 0) pending_ = job.walk.next(~uint64_t{0});
        next_send_ += job.burst_ticks;
        window_.begin();
        --pending_.count;
        batch_[count] = {pump_, pending_.first++};
      }
      path_.request(core_, job.store, number, {batch_.data(), count});
    }
    if (job.unsent) return;
    queue_.pop_front();
  }
}

void FlowDma::finish(uint32_t number) {
  Job& job = jobs_[number];
  const Tick end = job.end + (job.store ? 0 : job.burst_ticks);  // the last one is written to the scratchpad
  events_.at(std::max(events_.now(), end), std::move(job.done));
  free_.push_back(number);
}

ComponentStats FlowDma::component() {
  transfers_.set(totals_.transfers);
  read_bursts_.set(totals_.bursts_read);
  written_bursts_.set(totals_.bursts_written);
  return {stats_.component(), stats_.values()};
}

}  // namespace npu::timing
