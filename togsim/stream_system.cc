// Ideal network and DRAM, where bursts of a transfer are all alike: engines that move whole transfers at a
// rate.
#include "memory_system.h"
#include "network.h"

namespace npu::timing {
namespace {

class StreamSystem final : public MemorySystem {
 public:
  StreamSystem(EventQueue& events, uint32_t cores, const MemorySystemParams& params)
      : network_(make_ideal_network(events, params.network.latency_cycles)),
        memory_(make_ideal_memory(events, cores, params.ideal)) {
    for (uint32_t core = 0; core < cores; ++core)
      engines_.push_back(make_fifo_dma(events, core, *network_, *memory_, params.dma));
  }

  Dma& engine(uint32_t core) override { return *engines_[core]; }
  MemoryStats memory() const override { return memory_->stats(); }
  std::string engine_waiting_for(uint32_t) const override { return ""; }
  std::string waiting_for() const override { return ""; }

  std::vector<ComponentStats> statistics(Tick end) override {
    std::vector<ComponentStats> rows;
    for (size_t core = 0; core < engines_.size(); ++core) {
      const DmaStats stats = engines_[core]->stats();
      rows.push_back({"dma " + std::to_string(core),
                      {{"transfers", stats.transfers},
                       {"read_bursts", stats.bursts_read},
                       {"written_bursts", stats.bursts_written}}});
    }
    const MemoryStats stats = memory_->stats();
    const uint64_t busy = std::min(stats.busy_cycles, to_cycles(end));
    rows.push_back({"dram",
                    {{"read_bursts", stats.read_bursts},
                     {"written_bursts", stats.written_bursts},
                     {"busy_cycles", busy},
                     {"idle_cycles", to_cycles(end) - busy}}});
    return rows;
  }

 private:
  std::unique_ptr<Network> network_;
  std::unique_ptr<Memory> memory_;
  std::vector<std::unique_ptr<Dma>> engines_;
};

}  // namespace

std::unique_ptr<MemorySystem> make_stream_system(EventQueue& events, uint32_t cores,
                                                 const MemorySystemParams& params) {
  return std::make_unique<StreamSystem>(events, cores, params);
}

}  // namespace npu::timing
