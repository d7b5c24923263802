// A core as the tile-operation simulator sees it: it plays a trace against its DMA engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dma.h"
#include "event_queue.h"
#include "trace.h"

namespace npu::timing {

// Where a core's cycles went. The sum is the cycle in which it ended.
struct CoreStats {
  uint64_t tile_cycles = 0;        // in tile functions
  uint64_t scalar_cycles = 0;      // in the control function
  uint64_t load_wait_cycles = 0;   // in wait, the last transfer to end was a load
  uint64_t store_wait_cycles = 0;  // in wait, the last transfer to end was a store
  uint64_t end_cycle = 0;
};

class Core {
 public:
  virtual ~Core() = default;
  virtual void start() = 0;  // plays from now on, by events
  virtual bool finished() const = 0;
  virtual std::string waiting_for() const = 0;  // for the report of a deadlock
  virtual CoreStats stats() const = 0;
};

// Plays `trace`, which must outlive it.
std::unique_ptr<Core> make_trace_core(EventQueue& events, Dma& dma, const Trace& trace);

}  // namespace npu::timing
