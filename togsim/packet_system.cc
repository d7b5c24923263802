#include <algorithm>

#include "burst_dma.h"
#include "memory_node.h"
#include "memory_system.h"

namespace npu::timing {
namespace {

class PacketSystem final : public MemorySystem {
 public:
  PacketSystem(EventQueue& events, uint32_t cores, const MemorySystemParams& params)
      : params_(params), map_(params.geometry) {
    const DramGeometry& geometry = params.geometry;
    params_.banks.bank_groups = geometry.bank_groups;
    params_.banks.banks_per_group = geometry.banks_per_group;
    const uint32_t units = geometry.channels * geometry.pseudo_channels;
    network_ = make_packet_network(events, cores, units, params.network);
    const BurstDmaPlace place{network_.get(), &map_, geometry.burst_bytes, cores};
    for (uint32_t core = 0; core < cores; ++core)
      engines_.push_back(std::make_unique<BurstDma>(events, core, place, params.dma));
    for (uint32_t unit = 0; unit < units; ++unit) {
      memories_.push_back(std::make_unique<MemoryNode>(events, *network_, cores + unit,
                                                       params.memory_cycles(), params.banks.queue_entries,
                                                       geometry.burst_bytes));
      MemoryNode& memory = *memories_.back();
      params_.banks.unit = unit;
      params_.banks.units = units;
      const std::string name = "dram channel " + std::to_string(unit);
      memory.attach(params.banked ? make_banked_channel(events, name, memory, params_.banks)
                                  : make_ideal_channel(events, name, memory, params.ideal_burst_ticks(),
                                                       params.banks.queue_entries));
    }
  }

  Dma& engine(uint32_t core) override { return *engines_[core]; }

  MemoryStats memory() const override {
    std::vector<DmaStats> stats;
    for (const auto& engine : engines_) stats.push_back(engine->stats());
    return memory_stats(params_, stats);
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
    for (auto& memory : memories_) rows.push_back(memory->stats(end));
    network_->report(end, rows);
    return rows;
  }

 private:
  MemorySystemParams params_;
  AddressMap map_;
  std::unique_ptr<PacketNetwork> network_;
  std::vector<std::unique_ptr<BurstDma>> engines_;
  std::vector<std::unique_ptr<MemoryNode>> memories_;
};

}  // namespace

std::unique_ptr<MemorySystem> make_packet_system(EventQueue& events, uint32_t cores,
                                                 const MemorySystemParams& params) {
  return std::make_unique<PacketSystem>(events, cores, params);
}

}  // namespace npu::timing
