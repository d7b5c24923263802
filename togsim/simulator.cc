#include "simulator.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "network.h"

namespace npu::timing {

TimingResult simulate(const TimingParams& params, const std::vector<const Trace*>& traces,
                      const std::function<bool()>& stop) {
  if (traces.empty()) throw std::invalid_argument("simulate: no trace");
  EventQueue events;
  const auto count = static_cast<uint32_t>(traces.size());
  const auto network = make_ideal_network(events, params.network_latency_cycles);
  const auto memory = make_ideal_memory(events, count, params.memory);
  std::vector<std::unique_ptr<Dma>> engines;
  std::vector<std::unique_ptr<Core>> cores;
  for (uint32_t i = 0; i < count; ++i) {
    engines.push_back(make_fifo_dma(events, i, *network, *memory, params.dma));
    cores.push_back(make_trace_core(events, *engines[i], *traces[i]));
  }
  for (auto& core : cores) core->start();
  if (!events.run(stop)) throw Stopped();

  std::string stuck;
  for (uint32_t i = 0; i < count; ++i) {
    if (!cores[i]->finished())
      stuck += " core " + std::to_string(i) + " waits for " + cores[i]->waiting_for() + ";";
  }
  if (!stuck.empty()) throw std::runtime_error("simulate: deadlock:" + stuck);

  TimingResult result;
  for (uint32_t i = 0; i < count; ++i) {
    result.cores.push_back(cores[i]->stats());
    result.dma.push_back(engines[i]->stats());
    result.cycles = std::max(result.cycles, result.cores.back().end_cycle);
  }
  result.cycles += params.launch_cycles;
  result.memory = memory->stats();
  return result;
}

}  // namespace npu::timing
