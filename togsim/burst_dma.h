// The DMA engine of exact fidelity, on a packet network.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "address_map.h"
#include "burst_walk.h"
#include "dma.h"
#include "packet_network.h"

namespace npu::timing {

// What an engine is attached to.
struct BurstDmaPlace {
  PacketNetwork* network = nullptr;
  const AddressMap* map = nullptr;
  uint32_t burst_bytes = 32;
  uint32_t first_memory_node = 1;
};

class BurstDma final : public Dma, public Node, public Actor {
 public:
  BurstDma(EventQueue& events, uint32_t core, const BurstDmaPlace& place, const DmaParams& params);

  void start(const Transfer& transfer, std::function<void()> done) override;
  DmaStats stats() const override { return totals_; }
  bool receive(const Packet& packet) override;
  void can_send(bool response) override;
  void act(uint64_t plan) override;

  std::string waiting_for() const;  // empty: for nothing
  ComponentStats stats(Tick end);

 private:
  enum class State : uint8_t { Idle, Decoding, Sending, AtLimit, NetworkFull, Waiting, Count };
  struct Job {
    BurstWalk walk;
    bool store;
    Tick ready;        // decoded
    Tick burst_ticks;  // of the scratchpad's port, for one burst
    uint64_t unsent, pending;
    std::function<void()> done;
  };

  void pump();
  void wake_at(Tick tick);
  void enter(State state);

  StatGroup stats_;
  Counter transfers_{stats_, "transfers"};
  Counter read_bursts_{stats_, "read_bursts"};
  Counter written_bursts_{stats_, "written_bursts"};
  Counter read_latency_sum_{stats_,
                            "read_latency_sum"};  // cycles from sending a request to its answer, over bursts
  Counter write_latency_sum_{stats_, "write_latency_sum"};
  Counter decode_cycles_{stats_, "decode_cycles"};
  Counter send_cycles_{stats_, "send_cycles"};
  Counter limit_cycles_{stats_, "outstanding_limit_cycles"};
  Counter network_cycles_{stats_, "network_full_cycles"};
  Counter wait_cycles_{stats_, "wait_cycles"};  // everything is sent, something is on its way
  Counter idle_cycles_{stats_, "idle_cycles"};

  EventQueue& events_;
  uint32_t core_;
  BurstDmaPlace place_;
  DmaParams params_;
  DmaStats totals_;
  std::vector<Job> jobs_;  // by token
  std::vector<uint32_t> free_;
  std::deque<uint32_t> queue_;  // not sent completely
  BurstSpan pending_;           // of the front one
  uint64_t outstanding_ = 0;
  Tick decoder_free_ = 0, local_free_ = 0, next_send_ = 0, port_free_ = 0;
  uint64_t plan_ = 0;
  Tick read_latency_ = 0, write_latency_ = 0;
  State state_ = State::Idle;
  Tick since_ = 0;
  std::array<Tick, static_cast<size_t>(State::Count)> times_{};
};

}  // namespace npu::timing
