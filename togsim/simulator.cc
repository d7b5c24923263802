#include "simulator.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace npu::timing {
namespace {

std::unique_ptr<MemorySystem> make_system(EventQueue& events, uint32_t cores,
                                          const MemorySystemParams& params, L2Tags* l2) {
  if (params.streams_only()) return make_stream_system(events, cores, params);
  if (!params.exact) return make_flow_system(events, cores, params, l2);
  return make_packet_system(events, cores, params, l2);
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

Counters work_statistics(const WorkCounts& work) {
  Counters rows;
  for (size_t i = 0; i < kWorkNames.size(); ++i) rows.emplace_back(kWorkNames[i], work.figures[i]);
  for (size_t i = 0; i < 8; ++i) {
    const uint64_t weights = work.of_array(Work::ArrayWeightRows, i);
    const uint64_t inputs = work.of_array(Work::ArrayInputRows, i);
    if (weights + inputs == 0) continue;
    rows.emplace_back("array_" + std::to_string(i) + "_weight_rows", weights);
    rows.emplace_back("array_" + std::to_string(i) + "_input_rows", inputs);
  }
  return rows;
}

TimingResult simulate(const TimingParams& params, const std::vector<const Trace*>& traces,
                      const std::function<bool()>& stop, L2Tags* l2) {
  if (traces.empty()) throw std::invalid_argument("simulate: no trace");
  EventQueue events;
  const auto count = static_cast<uint32_t>(traces.size());
  std::unique_ptr<L2Tags> cold;
  if (!params.system.l2.shared) {
    l2 = nullptr;
  } else if (!l2) {
    cold = std::make_unique<L2Tags>(params.system.l2, params.system.geometry.burst_bytes);
    l2 = cold.get();
  }
  const auto system = make_system(events, count, params.system, l2);
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
  for (uint32_t i = 0; i < count; ++i)
    result.components.emplace_back("lane core " + std::to_string(i), work_statistics(traces[i]->work));
  for (ComponentStats& component : system->statistics(to_ticks(result.cycles)))
    result.components.push_back(std::move(component));
  result.cycles += params.launch_cycles;
  return result;
}

}  // namespace npu::timing
