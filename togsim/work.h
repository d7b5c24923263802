// What a stretch of instructions did and where its cycles went, over all lanes: counted beside the cycles,
// from the same stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace npu {

enum class Work : uint8_t {
  MacsFloat32,  // of the systolic arrays: lanes x lanes per row pushed, zeros included
  MacsFloat16,
  MacsBfloat16,
  MacsFloat8,
  MacsInt8,
  VectorFloats,    // elements of add, multiply, fused multiply-add, convert, reduce
  VectorIntegers,  // elements of integer, logic, compare, merge, move, minimum
  VectorDivides,   // elements of divide and square root
  VectorPermutes,  // elements of slides, gathers and moves to scalar registers
  SpecialFunctions,
  LaneExchanges,
  ScratchpadBytes,  // of vector loads and stores
  ScalarInstructions,
  // Cycles by cause; they add up to those of the tile functions and of the control function.
  IssueCycles,      // something issued
  ScalarWaits,      // a scalar register or the vector configuration was not ready
  VectorWaits,      // a vector register was not ready, or still to be read
  UnitWaits,        // the functional unit was busy
  ArrayWaits,       // a queue of an array was full, or its results were not ready
  BranchCycles,     // after a taken branch
  DrainCycles,      // nothing was left to issue, but to complete
  ArrayWeightRows,  // per array, from here on
  ArrayInputRows = ArrayWeightRows + 8,
  Count = ArrayInputRows + 8,
};

// Names of the figures up to those of single arrays, as statistics give them.
inline constexpr std::array<const char*, static_cast<size_t>(Work::ArrayWeightRows)> kWorkNames = {
    "macs_float32",       "macs_float16",     "macs_bfloat16",       "macs_float8",     "macs_int8",
    "vector_floats",      "vector_integers",  "vector_divides",      "vector_permutes", "special_functions",
    "lane_exchanges",     "scratchpad_bytes", "scalar_instructions", "issue_cycles",    "scalar_wait_cycles",
    "vector_wait_cycles", "unit_wait_cycles", "array_wait_cycles",   "branch_cycles",   "drain_cycles",
};

struct WorkCounts {
  std::array<uint64_t, static_cast<size_t>(Work::Count)> figures{};

  uint64_t& operator[](Work work) { return figures[static_cast<size_t>(work)]; }
  uint64_t operator[](Work work) const { return figures[static_cast<size_t>(work)]; }
  uint64_t& of_array(Work first, size_t array) { return figures[static_cast<size_t>(first) + array]; }
  uint64_t of_array(Work first, size_t array) const { return figures[static_cast<size_t>(first) + array]; }
  WorkCounts& operator+=(const WorkCounts& other) {
    for (size_t i = 0; i < figures.size(); ++i) figures[i] += other.figures[i];
    return *this;
  }
  bool operator==(const WorkCounts&) const = default;
};

}  // namespace npu
