// The trace of one launch on one core: what the functional engine records and the tile-operation simulator
// plays.
#pragma once

#include <cstdint>
#include <vector>

#include "work.h"

namespace npu {

// A dense block of equal runs: for every index below the counts, `run_bytes` at base + sum(index *
// stride_bytes).
struct StridedRuns {
  struct Dim {
    uint64_t count;
    int64_t stride_bytes;
  };
  uint64_t base = 0;       // DRAM address of the first run
  uint64_t run_bytes = 0;  // contiguous bytes of one run
  std::vector<Dim> dims;   // outermost first; empty = one run
};

// One DMA transfer, after clipping to the elements that exist.
struct Transfer {
  bool store = false;
  uint32_t element_bytes = 0;
  uint64_t dram_bytes = 0;        // bytes read from or written to DRAM (multicast counted once)
  uint64_t scratchpad_bytes = 0;  // bytes written to or read from all lanes
  uint64_t descriptor_address = 0;
  std::vector<StridedRuns> runs;  // together they cover dram_bytes
};

struct TraceOp {
  enum class Kind : uint8_t { Scalar, Tile, Start, Wait };
  Kind kind = Kind::Scalar;
  uint32_t tag = 0;     // Start, Wait
  uint32_t index = 0;   // Start: into Trace::transfers; Tile: into the program's tile functions
  uint64_t cycles = 0;  // Scalar, Tile: cycles on the lane core
};

struct Trace {
  std::vector<TraceOp> ops;
  std::vector<Transfer> transfers;
  WorkCounts work;  // of all tile functions and the control function
};

}  // namespace npu
