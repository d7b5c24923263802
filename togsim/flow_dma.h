// The DMA engine of fast fidelity: bursts are sent for a stretch of time at once, without events of their
// own.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "burst_walk.h"
#include "dma.h"
#include "flow_window.h"
#include "statistics.h"

namespace npu::timing {

struct FlowBurst {
  Tick sent;
  uint64_t number;
};

// Network and memory as an engine of fast fidelity sees them.
class FlowPath {
 public:
  virtual ~FlowPath() = default;
  // Bursts leave core `core`. For each `FlowDma::answered` follows with the same `job`.
  virtual void request(uint32_t core, bool store, uint32_t job, std::span<const FlowBurst> bursts) = 0;
  // An engine has something to send from now on.
  virtual void wake(uint32_t core) = 0;
};

class FlowDma final : public Dma {
 public:
  FlowDma(EventQueue& events, uint32_t core, FlowPath& path, uint32_t burst_bytes, const DmaParams& params);

  void start(const Transfer& transfer, std::function<void()> done) override;
  DmaStats stats() const override { return totals_; }
  // Sends what is sent from now on and before `until`; answers that come before `until` are known.
  void send(Tick until);
  // The answer to a burst is back at `back`, which is not in the past.
  void answered(uint32_t number, Tick back) {
    Job& job = jobs_[number];
    window_.end(back);
    job.end = std::max(job.end, back);
    if (--job.pending == 0) finish(number);
  }
  bool idle() const { return jobs_.size() == free_.size(); }
  ComponentStats component();

 private:
  static constexpr size_t kBatch = 64;  // bursts that are sent at once
  struct Job {
    BurstWalk walk;
    bool store;
    Tick ready, burst_ticks, end;
    uint64_t unsent, pending;
    std::function<void()> done;
  };
  void finish(uint32_t number);

  StatGroup stats_;
  Counter transfers_{stats_, "transfers"};
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};

  EventQueue& events_;
  uint32_t core_;
  FlowPath& path_;
  uint32_t burst_bytes_;
  DmaParams params_;
  DmaStats totals_;
  std::vector<Job> jobs_;  // by number
  std::vector<uint32_t> free_;
  std::deque<uint32_t> queue_;  // not sent completely
  BurstSpan pending_;           // of the front one
  std::array<FlowBurst, kBatch> batch_;
  FlowWindow window_;  // bursts on their way
  Tick decoder_free_ = 0, local_free_ = 0, next_send_ = 0;
  Tick pump_ = 0;  // when something was sent last
};

}  // namespace npu::timing
