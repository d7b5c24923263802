#include "packet_probe.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>

#include "packet_network.h"

namespace npu::timing {
namespace {

class ProbeNode final : public Node, public Actor {
 public:
  ProbeNode(EventQueue& events, PacketNetwork& network, uint32_t node, std::vector<uint64_t>& arrivals)
      : events_(events), network_(network), node_(node), arrivals_(arrivals) {
    network.attach(node, *this);
  }

  void add(const Packet& packet, uint64_t cycle) { queue_.emplace_back(to_ticks(cycle), packet); }
  void open_at(uint64_t cycle) { open_ = to_ticks(cycle); }
  void start() {
    if (!queue_.empty()) events_.at(queue_.front().first, *this, 0);
    if (open_) events_.at(open_, *this, 1);
  }

  bool receive(const Packet& packet) override {
    if (events_.now() < open_) return false;
    arrivals_[packet.token] = to_cycles(events_.now());
    return true;
  }
  void can_send(bool) override { act(0); }
  void act(uint64_t what) override {
    if (what == 1) {
      network_.resume(node_, false);
      network_.resume(node_, true);
      return;
    }
    while (!queue_.empty() && queue_.front().first <= events_.now()) {
      if (!network_.send(queue_.front().second)) return;
      queue_.pop_front();
    }
    if (!queue_.empty()) events_.at(queue_.front().first, *this, 0);
  }

 private:
  EventQueue& events_;
  PacketNetwork& network_;
  uint32_t node_;
  std::vector<uint64_t>& arrivals_;
  std::deque<std::pair<Tick, Packet>> queue_;
  Tick open_ = 0;
};

}  // namespace

std::vector<uint64_t> probe_network(uint32_t cores, uint32_t memories, const NetworkParams& params,
                                    const std::vector<ProbePacket>& packets,
                                    const std::vector<std::pair<uint32_t, uint64_t>>& closed) {
  EventQueue events;
  const auto network = make_packet_network(events, cores, memories, params);
  std::vector<uint64_t> arrivals(packets.size(), kNever);
  std::deque<ProbeNode> nodes;
  for (uint32_t node = 0; node < cores + memories; ++node)
    nodes.emplace_back(events, *network, node, arrivals);
  for (uint32_t i = 0; i < packets.size(); ++i) {
    const ProbePacket& p = packets[i];
    if (std::max(p.source, p.target) >= nodes.size()) throw std::invalid_argument("probe: no such node");
    Packet packet;
    packet.source = p.source;
    packet.target = p.target;
    packet.token = i;
    packet.bytes = p.bytes;
    packet.response = p.response;
    nodes[p.source].add(packet, p.cycle);
  }
  for (const auto& [node, cycle] : closed) nodes.at(node).open_at(cycle);
  for (ProbeNode& node : nodes) node.start();
  events.run([] { return false; });
  const auto lost = std::count(arrivals.begin(), arrivals.end(), kNever);
  if (lost)
    throw std::runtime_error("probe: " + std::to_string(lost) + " packets never arrive; " +
                             network->holding());
  return arrivals;
}

}  // namespace npu::timing
