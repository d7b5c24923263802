#include "flow_dma.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "burst_count.h"

namespace npu::timing {
namespace {

// Bursts handled at once. Engines take turns after that many, so that they share the memory in the order of
// time; fewer would close rows more often than a controller does that looks for hits in its queue.
constexpr uint64_t kPiece = 512;

}  // namespace

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
  jobs_.push_back({BurstWalk(transfer, burst_bytes_), transfer.store, decoder_free_,
                   std::max<Tick>(1, scratchpad / bursts), 0, bursts, std::move(done)});
  if (jobs_.size() == 1) events_.at(decoder_free_, *this, 0);
}

void FlowDma::act(uint64_t) {
  Job& job = jobs_.front();
  uint64_t left = std::min(kPiece, job.unsent);
  job.unsent -= left;
  while (left) {
    const BurstSpan span = job.walk.next(left);
    left -= span.count;
    for (uint64_t burst = span.first; burst < span.first + span.count; ++burst) {
      const Tick sent = std::max({next_send_, job.ready, window_.free()});
      next_send_ = sent + job.burst_ticks;
      const Tick back = path_.serve(core_, burst, job.store, sent) + (job.store ? 0 : job.burst_ticks);
      window_.take(back);
      job.end = std::max(job.end, back);
    }
  }
  if (job.unsent == 0) {
    events_.at(std::max(events_.now(), job.end), std::move(job.done));
    jobs_.pop_front();
    if (jobs_.empty()) return;
  }
  events_.at(std::max({events_.now(), next_send_, jobs_.front().ready, window_.free()}), *this, 0);
}

ComponentStats FlowDma::component() {
  transfers_.set(totals_.transfers);
  read_bursts_.set(totals_.bursts_read);
  written_bursts_.set(totals_.bursts_written);
  return {stats_.component(), stats_.values()};
}

}  // namespace npu::timing
