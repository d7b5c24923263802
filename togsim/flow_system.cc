#include "flow_channel.h"
#include "flow_dma.h"
#include "flow_network.h"
#include "memory_system.h"

namespace npu::timing {
namespace {

class FlowSystem final : public MemorySystem, public FlowPath {
 public:
  FlowSystem(EventQueue& events, uint32_t cores, const MemorySystemParams& params)
      : params_(params),
        map_(params.geometry),
        network_(cores, static_cast<uint32_t>(params.units()), params.geometry.burst_bytes, params.network),
        controller_(to_ticks(params.memory_cycles())) {
    const DramGeometry& geometry = params.geometry;
    params_.banks.bank_groups = geometry.bank_groups;
    params_.banks.banks_per_group = geometry.banks_per_group;
    const uint32_t units = geometry.channels * geometry.pseudo_channels;
    params_.banks.units = units;
    for (uint32_t unit = 0; unit < units; ++unit) {
      params_.banks.unit = unit;
      const std::string name = "dram channel " + std::to_string(unit);
      channels_.push_back(params.banked ? make_banked_flow_channel(name, params_.banks)
                                        : make_ideal_flow_channel(name, params.ideal_burst_ticks()));
    }
    for (uint32_t core = 0; core < cores; ++core)
      engines_.push_back(std::make_unique<FlowDma>(events, core, *this, geometry.burst_bytes, params.dma));
  }

  Tick serve(uint32_t core, uint64_t burst, bool store, Tick sent) override {
    const BurstLocation at = map_.locate(burst);
    const Tick there = network_.request(core, at.unit, store, sent);
    const Tick done = channels_[at.unit]->serve(at.bank, at.row, store, there) + controller_;
    return network_.response(core, at.unit, !store, done);
  }

  Dma& engine(uint32_t core) override { return *engines_[core]; }

  MemoryStats memory() const override {
    std::vector<DmaStats> stats;
    for (const auto& engine : engines_) stats.push_back(engine->stats());
    return memory_stats(params_, stats);
  }
  Tick written() const override {
    Tick end = 0;
    for (const auto& channel : channels_) end = std::max(end, channel->written());
    return end;
  }
  std::string engine_waiting_for(uint32_t) const override { return ""; }
  std::string waiting_for() const override { return ""; }

  std::vector<ComponentStats> statistics(Tick end) override {
    std::vector<ComponentStats> rows;
    for (auto& engine : engines_) rows.push_back(engine->component());
    for (auto& channel : channels_) rows.push_back(channel->stats(end));
    network_.report(end, rows);
    return rows;
  }

 private:
  MemorySystemParams params_;
  AddressMap map_;
  FlowNetwork network_;
  Tick controller_;
  std::vector<std::unique_ptr<FlowChannel>> channels_;
  std::vector<std::unique_ptr<FlowDma>> engines_;
};

}  // namespace

std::unique_ptr<MemorySystem> make_flow_system(EventQueue& events, uint32_t cores,
                                               const MemorySystemParams& params) {
  return std::make_unique<FlowSystem>(events, cores, params);
}

}  // namespace npu::timing
