#include "flow_network.h"

namespace npu::timing {

FlowNetwork::FlowNetwork(uint32_t cores, uint32_t memories, uint32_t burst_bytes, const NetworkParams& params)
    : ideal_(params.kind == NetworkKind::Ideal),
      latency_(to_ticks(params.latency_cycles)),
      shortest_(latency_),
      memories_(memories),
      burst_bytes_(burst_bytes) {
  if (ideal_) return;
  const Topology topology = make_topology(cores, memories, params);
  const auto ticks = [&](uint64_t bytes) {
    return std::max<Tick>(1, to_ticks(std::max(bytes, params.header_bytes)) / params.link_bytes_per_cycle);
  };
  header_ = ticks(0);
  for (const auto& link : topology.links) {
    links_.push_back(std::make_unique<FlowLink>("link " + link.name, ticks(burst_bytes)));
    latencies_.push_back(to_ticks(link.latency_cycles));
  }
  for (uint32_t core = 0; core < cores; ++core) {
    for (uint32_t memory = 0; memory < memories; ++memory) {
      to_memory_.push_back(topology.path(core, cores + memory));
      to_core_.push_back(topology.path(cores + memory, core));
    }
  }
  shortest_ = kNever;
  for (const auto& paths : {to_memory_, to_core_}) {
    for (const auto& path : paths) {
      Tick way = 0;
      for (const uint32_t link : path) way += latencies_[link];
      shortest_ = std::min(shortest_, way);
    }
  }
}

void FlowNetwork::report(Tick end, std::vector<ComponentStats>& into) {
  for (auto& link : links_) into.push_back(link->stats(end, burst_bytes_));
}

ComponentStats FlowLink::stats(Tick end, uint64_t packet_bytes) {
  bytes_.set(packets_.value() * packet_bytes);
  busy_cycles_.set(std::min(to_cycles(packets_.value() * packet_ticks_), to_cycles(end)));
  idle_cycles_.set(to_cycles(end) - busy_cycles_.value());
  return {stats_.component(), stats_.values()};
}

}  // namespace npu::timing
