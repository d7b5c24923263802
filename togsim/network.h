// What lies between the DMA engines and the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "event_queue.h"

namespace npu::timing {

class Network {
 public:
  virtual ~Network() = default;
  // Carries the head of a stream of `bytes` between core `core` and the memory; `arrived` runs at the other
  // end. Messages of one core in one direction arrive in the order in which they were sent.
  virtual void send(uint32_t core, bool to_memory, uint64_t bytes, std::function<void()> arrived) = 0;
  virtual uint64_t latency_cycles() const = 0;  // unloaded, one way
};

// A latency and no bandwidth limit.
std::unique_ptr<Network> make_ideal_network(EventQueue& events, uint64_t latency_cycles);

}  // namespace npu::timing
