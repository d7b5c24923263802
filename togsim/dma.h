// A core's DMA engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "event_queue.h"
#include "memory.h"
#include "network.h"
#include "trace.h"

namespace npu::timing {

struct DmaParams {
  uint64_t issue_cycles = 4;                   // to decode a descriptor
  uint64_t scratchpad_bytes_per_cycle = 4096;  // over all lanes
  uint64_t max_outstanding = 2048;             // bursts in flight
};

struct DmaStats {
  uint64_t transfers = 0;
  uint64_t bytes_read = 0;  // bytes that exist, each once
  uint64_t bytes_written = 0;
  uint64_t bursts_read = 0;
  uint64_t bursts_written = 0;
  uint64_t scratchpad_bytes = 0;  // over all lanes, both ways
};

class Dma {
 public:
  virtual ~Dma() = default;
  // Starts a transfer now; `done` runs when its last byte has arrived. Transfers are ordered only by their
  // tags, which is the caller's business. `transfer` must live until then.
  virtual void start(const Transfer& transfer, std::function<void()> done) = 0;
  virtual DmaStats stats() const = 0;
};

// One descriptor decoder and one request stream per engine, both first come, first served.
std::unique_ptr<Dma> make_fifo_dma(EventQueue& events, uint32_t core, Network& network, Memory& memory,
                                   const DmaParams& params);

}  // namespace npu::timing
