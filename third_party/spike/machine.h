// The functional engine of one NPU core: loads a program, launches kernels, reports faults. See
// docs/kernel_abi.md.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "faults.h"
#include "lane_core.h"
#include "program_image.h"
#include "trace.h"

namespace npu::engine {

struct MachineParams {
  uint32_t lanes = 128;
  uint32_t vlen_bits = 256;
  uint64_t slice_bytes = 128 * 1024;
  uint64_t stack_reserve_bytes = 4096;
  uint32_t array_count = 2;
  uint32_t array_queue_entries = 256;
  uint64_t instruction_budget = UINT64_C(10'000'000'000);
  bool reference_lanes = false;  // vector arithmetic by Spike's handlers only, for tests
  uint32_t body_level = 0;       // x86-64 level of the native bodies: 2, 3, 4; 0 is the best of this machine
  LaneCoreParams timing;
};

// An argument of a launch: the tensor a descriptor's slot number stands for.
struct Slot {
  uint8_t* data = nullptr;    // element 0; may be null in timing mode
  int64_t lowest_byte = 0;    // first valid byte relative to data, 0 or negative
  int64_t end_byte = 0;       // one past the last valid byte relative to data
  uint64_t dram_address = 0;  // of element 0, for the trace
  uint32_t element_bytes = 0;
  bool writable = true;
};

enum class Mode : uint8_t {
  Functional,        // results, no trace
  FunctionalTiming,  // results and trace
  Timing,            // trace only: no data moves, tile functions of known latency are skipped
};

// A call of a tile function as far as its latency goes.
struct LatencyKey {
  uint32_t tile = 0;
  std::array<uint64_t, 8> arguments = {};  // zero where the function does not read it
  auto operator<=>(const LatencyKey&) const = default;
};
// What a call costs: cycles, and what it did in them.
struct TileCost {
  uint64_t cycles = 0;
  WorkCounts work;
};
using LatencyTable = std::map<LatencyKey, TileCost>;

struct InstructionCounts {
  uint64_t scalar = 0;
  uint64_t vector = 0;
  uint64_t dma = 0;
  uint64_t array = 0;  // pushes and pops
};

struct LaunchRequest {
  uint64_t entry = 0;
  uint32_t core = 0;
  uint32_t cores = 1;
  Mode mode = Mode::Functional;
  std::vector<Slot> slots;
  LatencyTable latencies;  // known ones
};

struct LaunchResult {
  Trace trace;  // empty in functional mode
  uint64_t stack_bytes = 0;
  InstructionCounts counts;
  LatencyTable measured;         // of calls that were not known
  uint64_t assumed_indices = 0;  // index tile entries that timing mode had to make up
};

class Core;

class Machine {
 public:
  // Throws std::invalid_argument on figures the machine cannot have.
  explicit Machine(const MachineParams& params);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const MachineParams& params() const;
  void load(ProgramImage program);

  // Runs a kernel to its end. `poll` is called every few milliseconds; true stops the launch with an
  // interrupted fault. Throws Fault; the machine can be used again afterwards.
  LaunchResult launch(const LaunchRequest& request, const std::function<bool()>& poll);

  // Assembly text of an instruction word.
  std::string disassemble(uint32_t bits) const;
  // Names (Spike's) of the vector instructions executed since the machine was made, sorted.
  std::vector<std::string> executed_vector_instructions() const;

  // A lane's slice and a lane's vector register, for tests and debugging.
  uint8_t* slice(uint32_t lane);
  uint8_t* vector_register(uint32_t number, uint32_t lane);

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace npu::engine
