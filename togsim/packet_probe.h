// Packets through a network alone: between any two nodes, without memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "topology.h"

namespace npu::timing {

struct ProbePacket {
  uint32_t source = 0, target = 0;  // cores first, then the memory's data buses
  uint32_t bytes = 0;
  bool response = false;
  uint64_t cycle = 0;  // in which it is sent; packets of one source in this order
};

// The cycle in which each packet arrives, begun cycles counted. `closed`: nodes that take nothing before a
// cycle. Throws std::invalid_argument for nodes that do not exist, std::runtime_error when packets never
// arrive.
std::vector<uint64_t> probe_network(uint32_t cores, uint32_t memories, const NetworkParams& params,
                                    const std::vector<ProbePacket>& packets,
                                    const std::vector<std::pair<uint32_t, uint64_t>>& closed);

}  // namespace npu::timing
