// The DMA engine of fast fidelity: pieces of transfers, whose bursts move clocks instead of being scheduled.
#pragma once

#include <deque>

#include "burst_walk.h"
#include "dma.h"
#include "flow_window.h"
#include "statistics.h"

namespace npu::timing {

// Network and memory as an engine of fast fidelity sees them.
class FlowPath {
 public:
  virtual ~FlowPath() = default;
  // A burst that leaves core `core` at `sent`; returns when its answer is back.
  virtual Tick serve(uint32_t core, uint64_t burst, bool store, Tick sent) = 0;
};

class FlowDma final : public Dma, public Actor {
 public:
  FlowDma(EventQueue& events, uint32_t core, FlowPath& path, uint32_t burst_bytes, const DmaParams& params);

  void start(const Transfer& transfer, std::function<void()> done) override;
  DmaStats stats() const override { return totals_; }
  void act(uint64_t) override;
  ComponentStats component();

 private:
  struct Job {
    BurstWalk walk;
    bool store;
    Tick ready, burst_ticks, end;
    uint64_t unsent;
    std::function<void()> done;
  };

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
  std::deque<Job> jobs_;
  FlowWindow window_;  // bursts on their way
  Tick decoder_free_ = 0, local_free_ = 0, next_send_ = 0;
};

}  // namespace npu::timing
