// The ideal network of packets: every one takes the latency, none waits for another but for room at its
// target.
#include <deque>
#include <utility>

#include "packet_network.h"

namespace npu::timing {
namespace {

class DelayNetwork final : public PacketNetwork, public Actor {
 public:
  DelayNetwork(EventQueue& events, uint32_t nodes, uint64_t latency_cycles)
      : events_(events), latency_(to_ticks(latency_cycles)), nodes_(nodes), held_(2 * nodes) {}

  void attach(uint32_t node, Node& to) override { nodes_.at(node) = &to; }

  bool send(const Packet& packet) override {
    on_the_way_.push_back({events_.now() + latency_, packet});
    if (on_the_way_.size() == 1) events_.at(on_the_way_.front().first, *this, 0);
    return true;
  }

  // Everything has the same latency, so the packets on the way are in the order of their arrival.
  void act(uint64_t) override {
    const Tick now = events_.now();
    while (!on_the_way_.empty() && on_the_way_.front().first <= now) {
      const Packet packet = on_the_way_.front().second;
      on_the_way_.pop_front();
      auto& held = held_[2 * packet.target + packet.response];
      if (!held.empty() || !nodes_[packet.target]->receive(packet)) held.push_back(packet);
    }
    if (!on_the_way_.empty()) events_.at(on_the_way_.front().first, *this, 0);
  }

  void resume(uint32_t node, bool response) override {
    auto& held = held_[2 * node + response];
    while (!held.empty() && nodes_[node]->receive(held.front())) held.pop_front();
  }

  std::string holding() const override {
    size_t packets = 0;
    for (const auto& held : held_) packets += held.size();
    return packets ? std::to_string(packets) + " packets wait at their targets" : "";
  }

  void report(Tick, std::vector<ComponentStats>&) override {}

 private:
  EventQueue& events_;
  Tick latency_;
  std::vector<Node*> nodes_;
  std::vector<std::deque<Packet>> held_;  // refused, by node and kind
  std::deque<std::pair<Tick, Packet>> on_the_way_;
};

}  // namespace

std::unique_ptr<PacketNetwork> make_delay_network(EventQueue& events, uint32_t nodes,
                                                  uint64_t latency_cycles) {
  return std::make_unique<DelayNetwork>(events, nodes, latency_cycles);
}

}  // namespace npu::timing
