#include <algorithm>
#include <utility>

#include "flow_channel.h"
#include "flow_slots.h"

namespace npu::timing {
namespace {

class IdealFlowChannel final : public FlowChannel {
 public:
  IdealFlowChannel(std::string name, Tick burst_ticks)
      : stats_(std::move(name)), burst_ticks_(burst_ticks), bus_(burst_ticks) {}

  Tick serve(uint32_t, uint64_t, bool store, Tick arrival) override {
    ++(store ? written_bursts_ : read_bursts_);
    const Tick end = bus_.take(arrival) + burst_ticks_;
    if (store) written_ = std::max(written_, end);
    return end;
  }
  Tick written() const override { return written_; }

  ComponentStats stats(Tick end) override {
    const uint64_t bursts = read_bursts_.value() + written_bursts_.value();
    busy_cycles_.set(std::min(to_cycles(bursts * burst_ticks_), to_cycles(end)));
    idle_cycles_.set(to_cycles(end) - busy_cycles_.value());
    return {stats_.component(), stats_.values()};
  }

 private:
  StatGroup stats_;
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};
  Counter busy_cycles_{stats_, "busy_cycles"};
  Counter idle_cycles_{stats_, "idle_cycles"};
  Tick burst_ticks_;
  FlowSlots bus_;
  Tick written_ = 0;
};

}  // namespace

std::unique_ptr<FlowChannel> make_ideal_flow_channel(std::string name, Tick burst_ticks) {
  return std::make_unique<IdealFlowChannel>(std::move(name), burst_ticks);
}

}  // namespace npu::timing
