#include "memory_system.h"

namespace npu::timing {

MemoryStats memory_stats(const MemorySystemParams& params, const std::vector<DmaStats>& engines) {
  MemoryStats stats;
  for (const DmaStats& engine : engines) {
    stats.read_bursts += engine.bursts_read;
    stats.written_bursts += engine.bursts_written;
  }
  const uint64_t buses = uint64_t{params.geometry.channels} * params.geometry.pseudo_channels;
  const Tick burst = params.banks.timing.t_burst_clocks * params.banks.clock_ticks;
  stats.busy_cycles = to_cycles((stats.read_bursts + stats.written_bursts) * burst / buses);
  return stats;
}

}  // namespace npu::timing
