// DRAM as the cores' DMA engines see it: streams of bursts in, completions out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "event_queue.h"
#include "trace.h"

namespace npu::timing {

// Bytes per cycle in fixed point, so that shares of a bandwidth add up exactly.
using Rate = uint64_t;
inline Rate to_rate(double bytes_per_cycle) {
  return static_cast<Rate>(bytes_per_cycle * double{1 << 20} + 0.5);
}

// All bursts of one transfer. A memory that resolves single bursts walks `transfer->runs`.
struct Access {
  uint32_t port = 0;  // the DMA engine it comes from
  bool store = false;
  uint64_t bursts = 0;
  Rate rate_limit = 0;  // most that the requester can take or give; 0 = no limit
  const Transfer* transfer = nullptr;
};

struct MemoryStats {
  uint64_t read_bursts = 0;
  uint64_t written_bursts = 0;
  uint64_t busy_cycles = 0;  // cycles of the data bus that these bursts took
};

class Memory {
 public:
  virtual ~Memory() = default;
  // The accesses of one port are served in order. `done` runs when the last burst has left (load) or arrived
  // (store).
  virtual void submit(const Access& access, std::function<void()> done) = 0;
  virtual uint32_t burst_bytes() const = 0;
  virtual uint64_t latency_cycles() const = 0;  // unloaded, request to first byte
  virtual MemoryStats stats() const = 0;
};

struct IdealMemoryParams {
  double bytes_per_cycle = 512;
  uint64_t latency_cycles = 100;
  uint32_t burst_bytes = 32;
};

// A fixed latency, then the bandwidth, shared fairly by the ports that have something to move. Whole
// transfers at once.
std::unique_ptr<Memory> make_ideal_memory(EventQueue& events, uint32_t ports,
                                          const IdealMemoryParams& params);

}  // namespace npu::timing
