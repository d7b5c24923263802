// One launch of a kernel on all cores: from their traces to cycles.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "core.h"
#include "memory_system.h"
#include "trace.h"

namespace npu::timing {

struct TimingParams {
  uint64_t launch_cycles = 0;  // from one kernel's end to the next one's start
  MemorySystemParams system;
};

struct TimingResult {
  uint64_t cycles = 0;  // last core's end + launch_cycles: all cores meet in a barrier
  std::vector<CoreStats> cores;
  std::vector<DmaStats> dma;
  MemoryStats memory;
  std::vector<ComponentStats> components;
};

// `stop` ended the simulation.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "simulate: stopped"; }
};

// The figures of `work` by name; of arrays only those that were used.
Counters work_statistics(const WorkCounts& work);

// Plays one trace per core, all starting in cycle 0. Deterministic. `stop` is asked now and then whether to
// give up. `l2`: what the L2 holds from launches before, `begin` called; null: nothing. Throws
// std::invalid_argument for impossible figures or traces, std::runtime_error when cores wait forever,
// Stopped.
TimingResult simulate(const TimingParams& params, const std::vector<const Trace*>& traces,
                      const std::function<bool()>& stop, L2Tags* l2 = nullptr);

}  // namespace npu::timing
