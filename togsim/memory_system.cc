#include "memory_system.h"

namespace npu::timing {

MemoryStats memory_stats(const MemorySystemParams& params, const std::vector<DmaStats>& engines,
                         const L2Tags* tags) {
  MemoryStats stats;
  for (const DmaStats& engine : engines) {
    stats.read_bursts += engine.bursts_read;
    stats.written_bursts += engine.bursts_written;
  }
  if (tags) {
    stats.read_bursts = tags->dram_reads();
    stats.written_bursts = tags->dram_writes();
  }
  const Tick burst = params.banked ? params.banks.timing.t_burst_clocks * params.banks.clock_ticks
                                   : params.ideal_burst_ticks();
  stats.busy_cycles = to_cycles((stats.read_bursts + stats.written_bursts) * burst / params.units());
  return stats;
}

}  // namespace npu::timing
