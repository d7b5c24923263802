// Exact fidelity: DMA engines, network, L2 and DRAM, every burst a packet and every step of it an event.
#include <algorithm>

#include "burst_dma.h"
#include "l2_slice.h"
#include "memory_node.h"
#include "memory_system.h"

namespace npu::timing {
namespace {

class PacketSystem final : public MemorySystem {
 public:
  PacketSystem(EventQueue& events, uint32_t cores, const MemorySystemParams& params, L2Tags* tags)
      : params_(params), map_(params.geometry), tags_(tags) {
    const DramGeometry& geometry = params.geometry;
    params_.banks.bank_groups = geometry.bank_groups;
    params_.banks.banks_per_group = geometry.banks_per_group;
    const uint32_t units = geometry.channels * geometry.pseudo_channels;
    network_ = make_packet_network(events, cores, units, params.network);
    const BurstDmaPlace place{network_.get(), &map_, geometry.burst_bytes, cores};
    for (uint32_t core = 0; core < cores; ++core)
      engines_.push_back(std::make_unique<BurstDma>(events, core, place, params.dma));
    if (tags)
      l2_ = std::make_unique<L2Shared>(L2Shared{events,
                                                *tags,
                                                map_,
                                                params.l2_burst_ticks(),
                                                to_ticks(params.l2.latency_cycles),
                                                to_ticks(params.memory_cycles()),
                                                params.banks.queue_entries,
                                                {}});
    for (uint32_t unit = 0; unit < units; ++unit) {
      memories_.push_back(std::make_unique<MemoryNode>(events, *network_, cores + unit,
                                                       tags ? 0 : params.memory_cycles(),
                                                       params.banks.queue_entries, geometry.burst_bytes));
      MemoryNode& memory = *memories_.back();
      params_.banks.unit = unit;
      params_.banks.units = units;
      const std::string name = "dram channel " + std::to_string(unit);
      const auto dram = [&](ChannelOwner& owner) {
        return params.banked ? make_banked_channel(events, name, owner, params_.banks)
                             : make_ideal_channel(events, name, owner, params.ideal_burst_ticks(),
                                                  params.banks.queue_entries);
      };
      if (tags) {
        auto slice = std::make_unique<L2Slice>(*l2_, memory);
        slice->attach(dram(*slice));
        memory.attach(std::move(slice));
      } else {
        memory.attach(dram(memory));
      }
    }
  }

  Dma& engine(uint32_t core) override { return *engines_[core]; }

  MemoryStats memory() const override {
    std::vector<DmaStats> stats;
    for (const auto& engine : engines_) stats.push_back(engine->stats());
    return memory_stats(params_, stats, tags_);
  }

  Tick written() const override {
    Tick last = 0;
    for (const auto& memory : memories_) last = std::max(last, memory->written());
    return last;
  }

  std::string engine_waiting_for(uint32_t core) const override { return engines_[core]->waiting_for(); }

  std::string waiting_for() const override {
    std::string text = network_->holding();
    for (size_t channel = 0; channel < memories_.size(); ++channel) {
      if (const uint64_t bursts = memories_[channel]->in_flight())
        text += (text.empty() ? "" : "; ") + std::string("dram channel ") + std::to_string(channel) +
                " holds " + std::to_string(bursts) + " bursts";
    }
    return text;
  }

  std::vector<ComponentStats> statistics(Tick end) override {
    std::vector<ComponentStats> rows;
    for (auto& engine : engines_) rows.push_back(engine->stats(end));
    if (tags_) rows.push_back(tags_->stats());
    for (auto& memory : memories_) rows.push_back(memory->stats(end));
    network_->report(end, rows);
    return rows;
  }

 private:
  MemorySystemParams params_;
  AddressMap map_;
  L2Tags* tags_;  // null: no L2
  std::unique_ptr<L2Shared> l2_;
  std::unique_ptr<PacketNetwork> network_;
  std::vector<std::unique_ptr<BurstDma>> engines_;
  std::vector<std::unique_ptr<MemoryNode>> memories_;
};

}  // namespace

std::unique_ptr<MemorySystem> make_packet_system(EventQueue& events, uint32_t cores,
                                                 const MemorySystemParams& params, L2Tags* tags) {
  return std::make_unique<PacketSystem>(events, cores, params, tags);
}

}  // namespace npu::timing
