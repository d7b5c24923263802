// Everything between the cores and the DRAM's cells: DMA engines, network, memory. One implementation per
// fidelity.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "address_map.h"
#include "channel.h"
#include "dma.h"
#include "l2_tags.h"
#include "memory.h"
#include "statistics.h"
#include "topology.h"

namespace npu::timing {

struct MemorySystemParams {
  DmaParams dma;
  NetworkParams network;
  bool exact = true;  // every burst; else whole pieces of transfers
  bool banked = false;
  IdealMemoryParams ideal;  // figures of the memory without banks
  DramGeometry geometry;    // of the one with banks, and so on
  BankedParams banks;
  uint64_t controller_cycles = 72;
  L2Params l2;

  uint64_t units() const { return uint64_t{geometry.channels} * geometry.pseudo_channels; }
  // What is added to the channels' own time.
  uint64_t memory_cycles() const { return banked ? controller_cycles : ideal.latency_cycles; }
  // A burst on one of the data buses of the memory without banks.
  Tick ideal_burst_ticks() const {
    const double cycles = ideal.burst_bytes * static_cast<double>(units()) / ideal.bytes_per_cycle;
    return std::max<Tick>(1, static_cast<Tick>(cycles * static_cast<double>(kTicksPerCycle) + 0.5));
  }
  // A burst on the port of one of the L2's slices, of which each data bus has one.
  Tick l2_burst_ticks() const {
    return std::max<Tick>(
        1, to_ticks(geometry.burst_bytes * units()) / std::max<uint64_t>(1, l2.bytes_per_cycle));
  }
  // Nothing in it depends on single bursts.
  bool streams_only() const { return !banked && !l2.shared && network.kind == NetworkKind::Ideal; }
};

class MemorySystem {
 public:
  virtual ~MemorySystem() = default;
  virtual Dma& engine(uint32_t core) = 0;
  virtual MemoryStats memory() const = 0;
  // When the last write was in the DRAM: after its answer, which a queue gives.
  virtual Tick written() const { return 0; }
  // What an engine and what the rest waits for; empty: for nothing. For the report of a deadlock.
  virtual std::string engine_waiting_for(uint32_t core) const = 0;
  virtual std::string waiting_for() const = 0;
  virtual std::vector<ComponentStats> statistics(Tick end) = 0;
};

// Whole transfers as streams; only for what `streams_only` says.
std::unique_ptr<MemorySystem> make_stream_system(EventQueue& events, uint32_t cores,
                                                 const MemorySystemParams& params);
// Every burst as a packet. `tags`: what the L2 holds; used where there is one.
std::unique_ptr<MemorySystem> make_packet_system(EventQueue& events, uint32_t cores,
                                                 const MemorySystemParams& params, L2Tags* tags);

// Pieces of transfers over the clocks of banks and buses.
std::unique_ptr<MemorySystem> make_flow_system(EventQueue& events, uint32_t cores,
                                               const MemorySystemParams& params, L2Tags* tags);

// What the DRAM moved (what the engines asked for, or what the L2 did), and how long that took the data buses
// of all channels together.
MemoryStats memory_stats(const MemorySystemParams& params, const std::vector<DmaStats>& engines,
                         const L2Tags* tags);

}  // namespace npu::timing
