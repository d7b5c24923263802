// Routers and links of a network, and the way from node to node: data only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npu::timing {

enum class NetworkKind : uint8_t { Ideal, Crossbar, Mesh };

struct NetworkParams {
  NetworkKind kind = NetworkKind::Ideal;
  uint64_t latency_cycles = 10;  // ideal, crossbar: one way
  uint64_t hop_cycles = 2;       // mesh: from router to router
  uint32_t columns = 0;          // mesh; 0: as square as possible
  uint64_t link_bytes_per_cycle = 512;
  uint64_t header_bytes = 8;       // what a packet without payload occupies
  uint32_t buffer_packets = 256;   // at the end of each link, for requests and for responses
  bool separate_responses = true;  // or both in one buffer
};

struct Topology {
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Link {
    uint32_t from_router = kNone, from_node = kNone;  // one of them
    uint32_t to_router = kNone, to_node = kNone;      // one of them
    uint64_t latency_cycles = 0;
    std::string name;
  };
  std::vector<Link> links;
  std::vector<uint32_t> injection;           // by node: the link that it sends into
  std::vector<std::vector<uint32_t>> route;  // by router and target node: the next link
  uint32_t ejection(uint32_t node) const { return injection.at(node) + 1; }  // the link to it
  // Links from node to node, in order.
  std::vector<uint32_t> path(uint32_t source, uint32_t target) const;
};

// Nodes: cores first, then the memory's data buses. Throws std::invalid_argument for impossible figures.
// Crossbar: one router. Mesh: a router per node; row by row half of the memory, the cores, the other half;
// packets go along the row first, then along the column.
Topology make_topology(uint32_t cores, uint32_t memories, const NetworkParams& params);

}  // namespace npu::timing
