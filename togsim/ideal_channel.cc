// A channel without banks: bursts in the order of their arrival, at the bandwidth of the data bus.
#include <algorithm>
#include <deque>
#include <utility>

#include "channel.h"

namespace npu::timing {
namespace {

class IdealChannel final : public Channel, public Actor {
 public:
  IdealChannel(EventQueue& events, std::string name, ChannelOwner& owner, Tick burst_ticks, uint32_t entries)
      : stats_(std::move(name)),
        events_(events),
        owner_(owner),
        burst_ticks_(burst_ticks),
        entries_(entries) {}

  bool full(bool) const override { return queue_.size() >= entries_; }
  uint64_t waiting() const override { return queue_.size(); }

  void push(const BurstRequest& request) override {
    queue_.push_back(request);
    if (queue_.size() == 1) events_.at(std::max(events_.now(), free_), *this, 0);
  }

  void act(uint64_t) override {
    const BurstRequest request = queue_.front();
    const bool was_full = full(request.store);
    queue_.pop_front();
    free_ = events_.now() + burst_ticks_;
    ++(request.store ? written_bursts_ : read_bursts_);
    owner_.served(request.token, free_);
    if (!queue_.empty()) events_.at(free_, *this, 0);
    if (was_full) owner_.has_room(request.store);
  }

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
  EventQueue& events_;
  ChannelOwner& owner_;
  std::deque<BurstRequest> queue_;
  Tick burst_ticks_;
  uint32_t entries_;
  Tick free_ = 0;
};

}  // namespace

std::unique_ptr<Channel> make_ideal_channel(EventQueue& events, std::string name, ChannelOwner& owner,
                                            Tick burst_ticks, uint32_t queue_entries) {
  return std::make_unique<IdealChannel>(events, std::move(name), owner, burst_ticks, queue_entries);
}

}  // namespace npu::timing
