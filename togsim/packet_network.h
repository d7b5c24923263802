// A network that carries single packets, with buffers that fill up: requests from cores, responses of the
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "event_queue.h"
#include "statistics.h"
#include "topology.h"

namespace npu::timing {

// One burst's request or response. What the ends need of it travels along.
struct Packet {
  uint64_t row = 0;    // in the DRAM
  uint64_t burst = 0;  // address / burst_bytes
  uint32_t unit = 0;   // of the DRAM
  uint32_t bank = 0;
  uint32_t source = 0;  // nodes: cores first, then the memory's data buses
  uint32_t target = 0;
  uint32_t token = 0;  // the source's name for it
  uint32_t bytes = 0;  // of payload
  bool store = false;
  bool response = false;
  Tick sent = 0;  // when it left its source
};

// What is attached to a network. Requests and responses are independent: a full queue of one does not hold up
// the other.
class Node {
 public:
  virtual ~Node() = default;
  // False: no room now. The network keeps the packet and offers it again after `resume`.
  virtual bool receive(const Packet& packet) = 0;
  virtual void can_send(bool response) = 0;  // after a `send` that was refused
};

class PacketNetwork {
 public:
  virtual ~PacketNetwork() = default;
  virtual void attach(uint32_t node, Node& to) = 0;
  // False: the first buffer on the way is full; `can_send` follows. Packets between two nodes stay in order.
  virtual bool send(const Packet& packet) = 0;
  virtual void resume(uint32_t node, bool response) = 0;  // the node has room again
  virtual std::string holding() const = 0;  // packets that do not move, for the report of a deadlock
  virtual void report(Tick end, std::vector<ComponentStats>& into) = 0;
};

// A latency, no bandwidth limit, endless buffers.
std::unique_ptr<PacketNetwork> make_delay_network(EventQueue& events, uint32_t nodes,
                                                  uint64_t latency_cycles);

// Links, routers, finite buffers.
std::unique_ptr<PacketNetwork> make_router_network(EventQueue& events, Topology topology,
                                                   const NetworkParams& params);
// The one that `params` says, for cores and data buses.
std::unique_ptr<PacketNetwork> make_packet_network(EventQueue& events, uint32_t cores, uint32_t memories,
                                                   const NetworkParams& params);

}  // namespace npu::timing
