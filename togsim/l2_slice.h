// The part of the shared L2 in front of one DRAM data bus: it serves the bursts of that bus, in order, at its
// share of the bandwidth, and asks the DRAM for what is missing.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "address_map.h"
#include "channel.h"
#include "l2_tags.h"

namespace npu::timing {

class L2Slice;

// What the slices share.
struct L2Shared {
  EventQueue& events;
  L2Tags& tags;
  const AddressMap& map;
  Tick burst_ticks;  // of a slice's port
  Tick latency_ticks;
  Tick controller_ticks;  // between slice and DRAM
  size_t entries;         // of a slice's queues; a look-up's stages are places, too
  std::vector<L2Slice*> slices;
};

class L2Slice final : public Channel, public ChannelOwner, public Actor {
 public:
  L2Slice(L2Shared& shared, ChannelOwner& owner) : shared_(shared), owner_(owner) {
    shared.slices.push_back(this);
  }
  void attach(std::unique_ptr<Channel> dram) { dram_ = std::move(dram); }

  bool full(bool store) const override;
  void push(const BurstRequest& request) override;
  uint64_t waiting() const override { return turns_.size() + to_dram_.size() + dram_->waiting(); }
  Tick written() const override { return dram_->written(); }
  ComponentStats stats(Tick end) override { return dram_->stats(end); }

  void served(uint32_t token, Tick done) override;
  void has_room(bool store) override;
  void act(uint64_t what) override;

 private:
  enum class Next : uint8_t { Answer, Dram, Joined };  // what comes after its turn
  struct Turn {
    BurstRequest request;
    Next next;
    Tick over;
    Tick ready = 0;  // when the data of a hit are in the L2
  };
  struct Fill {
    uint32_t reads = 0;            // of the DRAM, under way
    std::vector<uint32_t> joined;  // tokens of hits that wait for the data
    Tick ready = 0;                // no read is under way: when the last one's data are in the L2
  };
  void to_dram(const BurstRequest& request);
  void drain();
  void forget();

  static constexpr uint32_t kWriteBack = ~uint32_t{0};  // nobody waits for it
  static constexpr uint64_t kNoFill = ~uint64_t{0};

  L2Shared& shared_;
  ChannelOwner& owner_;
  std::unique_ptr<Channel> dram_;
  std::deque<Turn> turns_;
  std::deque<BurstRequest> to_dram_;          // that the DRAM's queue has no room for
  std::unordered_map<uint64_t, Fill> fills_;  // by burst
  std::deque<uint64_t> ended_;                // bursts of fills without a read under way, as they are ready
  std::vector<uint64_t> filled_;              // by token: the burst that it reads from the DRAM
  Tick port_free_ = 0;
};

}  // namespace npu::timing
