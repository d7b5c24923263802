// A network of fast fidelity: a burst takes time on each link of its way; buffers are endless.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "event_queue.h"
#include "statistics.h"
#include "topology.h"

namespace npu::timing {

// Packets of one size over a link, counted per window of time: a window that has time left takes another one.
class FlowLink {
 public:
  FlowLink(const std::string& name, Tick packet_ticks)
      : stats_(name),
        packet_ticks_(packet_ticks),
        window_(std::max(kTicksPerCycle, packet_ticks)),
        limit_(static_cast<uint32_t>(window_ / packet_ticks)),
        windows_(kWindows) {}

  // Takes the link for a packet that is there at `from`; returns when it has passed.
  Tick pass(Tick from) {
    ++packets_;
    for (uint64_t number = from / window_;; ++number) {
      Window& window = windows_[number % kWindows];
      if (window.number < number) window = {number, 0};
      if (window.number > number || window.packets >= limit_) continue;
      const Tick begin = std::max(from, number * window_ + window.packets * packet_ticks_);
      ++window.packets;
      return begin + packet_ticks_;
    }
  }
  ComponentStats stats(Tick end, uint64_t packet_bytes);

 private:
  static constexpr uint64_t kWindows = 1024;
  struct Window {
    uint64_t number = 0;
    uint32_t packets = 0;
  };
  StatGroup stats_;
  Counter packets_{stats_, "packets"};
  Counter bytes_{stats_, "payload_bytes"};
  Counter busy_cycles_{stats_, "busy_cycles"};
  Counter idle_cycles_{stats_, "idle_cycles"};
  Tick packet_ticks_, window_;
  uint32_t limit_;
  std::vector<Window> windows_;
};

class FlowNetwork {
 public:
  FlowNetwork(uint32_t cores, uint32_t memories, uint32_t burst_bytes, const NetworkParams& params);

  // A packet from a core to a data bus of the memory or back; returns when it is there.
  Tick request(uint32_t core, uint32_t memory, bool payload, Tick sent) {
    return ideal_ ? sent + latency_ : travel(to_memory_[core * memories_ + memory], payload, sent);
  }
  Tick response(uint32_t core, uint32_t memory, bool payload, Tick sent) {
    return ideal_ ? sent + latency_ : travel(to_core_[core * memories_ + memory], payload, sent);
  }
  Tick shortest() const { return shortest_; }  // way of an empty network
  void report(Tick end, std::vector<ComponentStats>& into);

 private:
  Tick travel(const std::vector<uint32_t>& path, bool payload, Tick at) {
    for (const uint32_t link : path)
      at = latencies_[link] + (payload ? links_[link]->pass(at) : at + header_);
    return at;
  }

  bool ideal_;
  Tick latency_, shortest_, header_ = 0;
  uint32_t memories_, burst_bytes_;
  std::vector<std::vector<uint32_t>> to_memory_, to_core_;  // links, by core and memory
  std::vector<std::unique_ptr<FlowLink>> links_;
  std::vector<Tick> latencies_;
};

}  // namespace npu::timing
