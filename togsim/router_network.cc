// A network of routers, packet by packet. Each link has a bandwidth, a latency, and at its end a buffer for
// requests and one for responses. A packet moves on when the next link is free and its buffer has room;
// inputs of a router take turns. Room is known at once where it is needed.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "packet_network.h"
#include "topology.h"

namespace npu::timing {
namespace {

class RouterNetwork final : public PacketNetwork, public Actor {
 public:
  RouterNetwork(EventQueue& events, Topology topology, const NetworkParams& params)
      : events_(events), topology_(std::move(topology)), params_(params), nodes_(topology_.injection.size()) {
    for (const auto& description : topology_.links) {
      links_.push_back(std::make_unique<Link>("link " + description.name));
      links_.back()->latency = to_ticks(description.latency_cycles);
    }
    inputs_.resize(topology_.route.size());
    for (uint32_t link = 0; link < links_.size(); ++link)
      if (topology_.links[link].to_router != Topology::kNone)
        inputs_[topology_.links[link].to_router].push_back(link);
  }

  void attach(uint32_t node, Node& to) override { nodes_.at(node).node = &to; }

  bool send(const Packet& packet) override {
    const uint32_t injection = topology_.injection[packet.source];
    const size_t kind = kind_of(packet);
    if (links_[injection]->taken[kind] >= params_.buffer_packets) {
      nodes_[packet.source].blocked[kind] = true;
      return false;
    }
    put(injection, packet);
    return true;
  }

  void resume(uint32_t node, bool) override {
    const uint32_t link = topology_.ejection(node);
    for (size_t kind = 0; kind < 2; ++kind) deliver(link, kind);
  }

  // Even: the first packet on the way over a link has arrived. Odd: the link is free.
  void act(uint64_t what) override {
    const auto number = static_cast<uint32_t>(what / 2);
    Link& link = *links_[number];
    if (what % 2) return advance(number);
    const Packet packet = link.flying.front();
    link.flying.pop_front();
    const size_t kind = kind_of(packet);
    link.buffer[kind].push_back(packet);
    if (topology_.links[number].to_node != Topology::kNone) return deliver(number, kind);
    if (link.buffer[kind].size() == 1) want(number, kind);
  }

  std::string holding() const override {
    std::string text;
    size_t packets = 0, named = 0;
    for (uint32_t number = 0; number < links_.size(); ++number) {
      for (const auto& buffer : links_[number]->buffer) {
        packets += buffer.size();
        if (buffer.empty() || ++named > kNamed) continue;
        const Packet& first = buffer.front();
        const auto& end = topology_.links[number];
        const std::string next =
            end.to_router == Topology::kNone
                ? name_of(end.to_node) + " to take it"
                : "link " + topology_.links[topology_.route[end.to_router][first.target]].name;
        text += "; " + links_[number]->stats.component() + " holds " + std::to_string(buffer.size()) +
                " packets, the first, a " + (first.response ? "response" : "request") + " from " +
                name_of(first.source) + " for " + name_of(first.target) + ", waits for " + next;
      }
    }
    return packets ? std::to_string(packets) + " packets wait in the network" + text : "";
  }

  void report(Tick end, std::vector<ComponentStats>& into) override {
    for (auto& link : links_) {
      if (link->blocked_since != kNever) link->blocked += end - std::min(end, link->blocked_since);
      link->blocked_since = kNever;
      const uint64_t cycles = to_cycles(end);
      link->busy_cycles.set(std::min(to_cycles(link->busy), cycles));
      link->stall_cycles.set(std::min(to_cycles(link->blocked), cycles - link->busy_cycles.value()));
      link->idle_cycles.set(cycles - link->busy_cycles.value() - link->stall_cycles.value());
      into.push_back({link->stats.component(), link->stats.values()});
    }
  }

 private:
  static constexpr size_t kNamed = 4;  // in the report of a deadlock

  struct Link {
    explicit Link(std::string name) : stats(std::move(name)) {}
    StatGroup stats;
    Counter packets{stats, "packets"};
    Counter bytes{stats, "payload_bytes"};
    Counter busy_cycles{stats, "busy_cycles"};
    Counter stall_cycles{stats, "buffer_full_stall_cycles"};
    Counter idle_cycles{stats, "idle_cycles"};
    Tick latency = 0;
    Tick free = 0;
    bool retry = false;                        // an event is set for when it is free
    std::deque<Packet> flying;                 // on the way, in order
    std::array<std::deque<Packet>, 2> buffer;  // at its end
    std::array<size_t, 2> taken{};             // of the buffer, packets on the way included
    uint32_t wanted = 0;                       // buffers whose first packet goes over it
    size_t turn = 0;                           // the input that was served last
    Tick busy = 0, blocked = 0, blocked_since = kNever;
  };
  struct Attached {
    Node* node = nullptr;
    std::array<bool, 2> blocked{};
  };

  size_t kind_of(const Packet& packet) const { return params_.separate_responses && packet.response; }
  std::string name_of(uint32_t node) const {
    const std::string& name = topology_.links[topology_.injection[node]].name;
    return name.substr(0, name.rfind(' '));
  }

  void put(uint32_t number, const Packet& packet) {
    Link& link = *links_[number];
    const Tick begin = std::max(events_.now(), link.free);
    const uint64_t bytes = std::max<uint64_t>(packet.bytes, params_.header_bytes);
    const Tick time = std::max<Tick>(1, to_ticks(bytes) / params_.link_bytes_per_cycle);
    link.free = begin + time;
    link.busy += time;
    ++link.packets;
    link.bytes += packet.bytes;
    ++link.taken[kind_of(packet)];
    link.flying.push_back(packet);
    events_.at(link.free + link.latency, *this, 2 * uint64_t{number});
  }

  // A buffer has a new first packet: its next link is wanted.
  void want(uint32_t number, size_t kind) {
    const Packet& packet = links_[number]->buffer[kind].front();
    const uint32_t next = topology_.route[topology_.links[number].to_router][packet.target];
    ++links_[next]->wanted;
    advance(next);
  }

  // Sends the next packet over a router's link, if there is one, and the link is free, and there is room at
  // its end.
  void advance(uint32_t number) {
    Link& link = *links_[number];
    if (link.free <= events_.now()) link.retry = false;
    if (link.wanted == 0 || link.retry) return;
    if (link.free > events_.now()) {
      link.retry = true;
      return events_.at(link.free, *this, 2 * uint64_t{number} + 1);
    }
    const uint32_t router = topology_.links[number].from_router;
    const auto& inputs = inputs_[router];
    const size_t choices = 2 * inputs.size();
    for (size_t i = 1; i <= choices; ++i) {
      const size_t choice = (link.turn + i) % choices;
      const uint32_t input = inputs[choice / 2];
      auto& buffer = links_[input]->buffer[choice % 2];
      if (buffer.empty() || topology_.route[router][buffer.front().target] != number) continue;
      const size_t kind = choice % 2;
      if (link.taken[kind] >= params_.buffer_packets) continue;
      const Packet packet = buffer.front();
      buffer.pop_front();
      link.turn = choice;
      --link.wanted;
      if (link.blocked_since != kNever) {
        link.blocked += events_.now() - link.blocked_since;
        link.blocked_since = kNever;
      }
      put(number, packet);
      if (!buffer.empty()) want(input, kind);
      left(input, kind);
      return advance(number);
    }
    if (link.blocked_since == kNever) link.blocked_since = events_.now();
  }

  // A packet has left the buffer at the end of a link: the one before may send again.
  void left(uint32_t number, size_t kind) {
    --links_[number]->taken[kind];
    const auto& description = topology_.links[number];
    if (description.from_router != Topology::kNone) return advance(number);
    Attached& node = nodes_[description.from_node];
    if (std::exchange(node.blocked[kind], false)) {
      node.node->can_send(kind == 1 || !params_.separate_responses);
    }
  }

  void deliver(uint32_t number, size_t kind) {
    Link& link = *links_[number];
    Node& node = *nodes_[topology_.links[number].to_node].node;
    while (!link.buffer[kind].empty()) {
      const Packet packet = link.buffer[kind].front();
      if (!node.receive(packet)) return;
      link.buffer[kind].pop_front();
      left(number, kind);
    }
  }

  EventQueue& events_;
  Topology topology_;
  NetworkParams params_;
  std::vector<Attached> nodes_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::vector<uint32_t>> inputs_;  // links into a router
};

}  // namespace

std::unique_ptr<PacketNetwork> make_router_network(EventQueue& events, Topology topology,
                                                   const NetworkParams& params) {
  return std::make_unique<RouterNetwork>(events, std::move(topology), params);
}

}  // namespace npu::timing
