#include "topology.h"

#include <stdexcept>
#include <utility>

namespace npu::timing {
namespace {

std::string node_name(uint32_t node, uint32_t cores) {
  return node < cores ? "core " + std::to_string(node) : "memory " + std::to_string(node - cores);
}

// Every node's own two links: into and out of `router_of[node]`.
void attach_nodes(Topology& topology, uint32_t cores, const std::vector<uint32_t>& router_of,
                  uint64_t out_cycles) {
  for (uint32_t node = 0; node < router_of.size(); ++node) {
    const std::string name = node_name(node, cores);
    topology.injection.push_back(static_cast<uint32_t>(topology.links.size()));
    topology.links.push_back({Topology::kNone, node, router_of[node], Topology::kNone, 0, name + " out"});
    topology.route[router_of[node]][node] = static_cast<uint32_t>(topology.links.size());
    topology.links.push_back(
        {router_of[node], Topology::kNone, Topology::kNone, node, out_cycles, name + " in"});
  }
}

Topology make_crossbar(uint32_t cores, uint32_t nodes, const NetworkParams& params) {
  Topology topology;
  topology.route.assign(1, std::vector<uint32_t>(nodes, Topology::kNone));
  attach_nodes(topology, cores, std::vector<uint32_t>(nodes, 0), params.latency_cycles);
  return topology;
}

Topology make_mesh(uint32_t cores, uint32_t nodes, const NetworkParams& params) {
  uint32_t columns = params.columns;
  while (columns == 0 || (params.columns == 0 && uint64_t{columns} * columns < nodes)) ++columns;
  const uint32_t rows = (nodes + columns - 1) / columns, routers = rows * columns;
  const uint32_t before = (nodes - cores) / 2;  // memories in front of the cores
  std::vector<uint32_t> router_of(nodes);
  for (uint32_t node = 0; node < nodes; ++node)
    router_of[node] = node < cores ? before + node : node - cores < before ? node - cores : node;

  Topology topology;
  topology.route.assign(routers, std::vector<uint32_t>(nodes, Topology::kNone));
  attach_nodes(topology, cores, router_of, params.hop_cycles);
  const auto connect = [&](uint32_t a, uint32_t b) {
    topology.links.push_back({a, Topology::kNone, b, Topology::kNone, params.hop_cycles,
                              "router " + std::to_string(a) + " to " + std::to_string(b)});
    return static_cast<uint32_t>(topology.links.size() - 1);
  };
  for (uint32_t router = 0; router < routers; ++router) {
    const uint32_t x = router % columns, y = router / columns;
    const uint32_t east = x + 1 < columns ? connect(router, router + 1) : Topology::kNone;
    const uint32_t west = x > 0 ? connect(router, router - 1) : Topology::kNone;
    const uint32_t south = y + 1 < rows ? connect(router, router + columns) : Topology::kNone;
    const uint32_t north = y > 0 ? connect(router, router - columns) : Topology::kNone;
    for (uint32_t node = 0; node < nodes; ++node) {
      const uint32_t tx = router_of[node] % columns, ty = router_of[node] / columns;
      if (tx != x) topology.route[router][node] = tx > x ? east : west;
      if (tx == x && ty != y) topology.route[router][node] = ty > y ? south : north;
    }
  }
  return topology;
}

}  // namespace

std::vector<uint32_t> Topology::path(uint32_t source, uint32_t target) const {
  std::vector<uint32_t> path{injection.at(source)};
  while (links[path.back()].to_node == kNone) path.push_back(route[links[path.back()].to_router].at(target));
  return path;
}

Topology make_topology(uint32_t cores, uint32_t memories, const NetworkParams& params) {
  if (params.link_bytes_per_cycle == 0) throw std::invalid_argument("network: link_bytes_per_cycle is 0");
  if (params.buffer_packets == 0) throw std::invalid_argument("network: buffer_packets is 0");
  if (params.header_bytes == 0) throw std::invalid_argument("network: header_bytes is 0");
  const uint32_t nodes = cores + memories;
  return params.kind == NetworkKind::Mesh ? make_mesh(cores, nodes, params)
                                          : make_crossbar(cores, nodes, params);
}

}  // namespace npu::timing
