// A DRAM channel of fast fidelity: bursts move its clocks one after another; nothing is scheduled. What the
// queue of a real controller reorders is covered by letting a burst take any gap that earlier ones have left.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "channel.h"

namespace npu::timing {

class FlowChannel {
 public:
  virtual ~FlowChannel() = default;
  // A burst that arrives at `arrival`; returns when a read's last data are on the bus, or a write is in the
  // queue.
  virtual Tick serve(uint32_t bank, uint64_t row, bool store, Tick arrival) = 0;
  virtual Tick written() const = 0;  // when the last write's data were on the bus
  virtual ComponentStats stats(Tick end) = 0;
};

std::unique_ptr<FlowChannel> make_banked_flow_channel(std::string name, const BankedParams& params);
// A bandwidth and nothing else.
std::unique_ptr<FlowChannel> make_ideal_flow_channel(std::string name, Tick burst_ticks);

}  // namespace npu::timing
