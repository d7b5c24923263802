#include <algorithm>
#include <utility>

#include "flow_channel.h"

namespace npu::timing {
namespace {

class IdealFlowChannel final : public FlowChannel {
 public:
  IdealFlowChannel(std::string name, Tick burst_ticks) : stats_(std::move(name)), burst_ticks_(burst_ticks) {}

  void advance(Tick until, std::vector<FlowAnswer>& answers) override {
    order();
    for (; next_ < arrivals_.size() && arrivals_[next_].at < until; ++next_) {
      const FlowRequest& request = arrivals_[next_];
      free_ = std::max(free_, request.at) + burst_ticks_;
      ++(request.store ? written_bursts_ : read_bursts_);
      answers.push_back({free_, request.job, request.core, request.store});
    }
    forget();
  }
  bool idle() const override { return next_ == arrivals_.size(); }
  Tick written() const override { return free_; }

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
  Tick free_ = 0;
};

}  // namespace

void FlowChannel::order() {
  if (ordered_) return;
  const auto earlier = [](const FlowRequest& a, const FlowRequest& b) { return a.at < b.at; };
  std::stable_sort(arrivals_.begin() + static_cast<std::ptrdiff_t>(next_), arrivals_.end(), earlier);
  ordered_ = true;
}

void FlowChannel::forget() {
  arrivals_.erase(arrivals_.begin(), arrivals_.begin() + static_cast<std::ptrdiff_t>(next_));
  next_ = 0;
}

std::unique_ptr<FlowChannel> make_ideal_flow_channel(std::string name, Tick burst_ticks) {
  return std::make_unique<IdealFlowChannel>(std::move(name), burst_ticks);
}

}  // namespace npu::timing
