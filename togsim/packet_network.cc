#include "packet_network.h"

namespace npu::timing {

std::unique_ptr<PacketNetwork> make_packet_network(EventQueue& events, uint32_t cores, uint32_t memories,
                                                   const NetworkParams& params) {
  if (params.kind == NetworkKind::Ideal)
    return make_delay_network(events, cores + memories, params.latency_cycles);
  return make_router_network(events, make_topology(cores, memories, params), params);
}

}  // namespace npu::timing
