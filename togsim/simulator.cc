#include "simulator.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

namespace npu::timing {
namespace {

std::unique_ptr<MemorySystem> make_system(EventQueue& events, uint32_t cores,
                                          const MemorySystemParams& params) {
  if (params.streams_only()) return make_stream_system(events, cores, params);
  if (!params.exact) return make_flow_system(events, cores, params);
  return make_packet_system(events, cores, params);
}

// Nothing is left to happen: a core that is not at its end waits for what never comes.
void check_finished(const std::vector<std::unique_ptr<Core>>& cores, const MemorySystem& system) {
  std::string stuck;
  for (uint32_t i = 0; i < cores.size(); ++i) {
    if (cores[i]->finished()) continue;
    stuck += " core " + std::to_string(i) + " waits for " + cores[i]->waiting_for();
    const std::string engine = system.engine_waiting_for(i);
    if (!engine.empty()) stuck += ", its DMA engine has " + engine;
    stuck += ";";
  }
  if (stuck.empty()) return;
  const std::string rest = system.waiting_for();
  throw std::runtime_error("simulate: deadlock:" + stuck + (rest.empty() ? "" : " " + rest));
}

}  // namespace

TimingResult simulate(const TimingParams& params, const std::vector<const Trace*>& traces,
                      const std::function<bool()>& stop) {
  if (traces.empty()) throw std::invalid_argument("simulate: no trace");
  EventQueue events;
  const auto count = static_cast<uint32_t>(traces.size());
  const auto system = make_system(events, count, params.system);
  std::vector<std::unique_ptr<Core>> cores;
  for (uint32_t i = 0; i < count; ++i)
    cores.push_back(make_trace_core(events, system->engine(i), *traces[i]));
  for (auto& core : cores) core->start();
  if (!events.run(stop)) throw Stopped();

  check_finished(cores, *system);

  TimingResult result;
  for (uint32_t i = 0; i < count; ++i) {
    result.cores.push_back(cores[i]->stats());
    result.dma.push_back(system->engine(i).stats());
    result.cycles = std::max(result.cycles, result.cores.back().end_cycle);
  }
  // Writes that the memory still had in its queues belong to the launch.
  result.cycles = std::max({result.cycles, to_cycles(system->written())});
  result.memory = system->memory();
  result.components = system->statistics(to_ticks(result.cycles));
  result.cycles += params.launch_cycles;
  return result;
}

}  // namespace npu::timing
