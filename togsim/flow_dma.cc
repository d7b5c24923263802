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
    next_send_ = std::max({next_send_, job.ready, events_.now()});
    while (job.unsent) {
      if (pending_.count == 0) pending_ = job.walk.next(~uint64_t{0});
      const Tick sent = std::max(next_send_, window_.free(until));
      if (sent >= until) return;
      next_send_ = sent + job.burst_ticks;
      window_.begin();
      --pending_.count;
      --job.unsent;
      path_.request(core_, pending_.first++, job.store, sent, number);
    }
    queue_.pop_front();
  }
}

void FlowDma::answered(uint32_t number, Tick back) {
  Job& job = jobs_[number];
  window_.end(back);
  job.end = std::max(job.end, back + (job.store ? 0 : job.burst_ticks));
  if (--job.pending) return;
  events_.at(std::max(events_.now(), job.end), std::move(job.done));
  free_.push_back(number);
}

ComponentStats FlowDma::component() {
  transfers_.set(totals_.transfers);
  read_bursts_.set(totals_.bursts_read);
  written_bursts_.set(totals_.bursts_written);
  return {stats_.component(), stats_.values()};
}

}  // namespace npu::timing
