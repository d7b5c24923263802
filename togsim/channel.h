// What serves the bursts of one DRAM data bus (a channel or pseudo-channel).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dram_timing.h"
#include "event_queue.h"
#include "statistics.h"

namespace npu::timing {

struct BurstRequest {
  uint64_t row = 0;
  uint32_t bank = 0;
  uint32_t token = 0;  // the owner's name for it
  bool store = false;
  uint64_t burst = 0;  // address / burst_bytes
};

// Whom a channel tells what it did.
class ChannelOwner {
 public:
  virtual ~ChannelOwner() = default;
  // A read's last data are on the bus at `done`, which may lie in the future; a write is safe.
  virtual void served(uint32_t token, Tick done) = 0;
  virtual void has_room(bool store) = 0;  // the queue was full and is no more
};

class Channel {
 public:
  virtual ~Channel() = default;
  virtual bool full(bool store) const = 0;
  virtual void push(const BurstRequest& request) = 0;  // not when full
  virtual uint64_t waiting() const = 0;                // requests in the queue
  virtual Tick written() const = 0;                    // when the last write's data were on the bus
  // Counters; `busy_cycles`, the stalls and `idle_cycles` add up to `end`.
  virtual ComponentStats stats(Tick end) = 0;
};

struct BankedParams {
  DramTiming timing;
  Tick clock_ticks = kTicksPerCycle;
  uint32_t bank_groups = 4;
  uint32_t banks_per_group = 4;
  uint32_t queue_entries = 32;   // of reads, and as many of writes
  uint32_t unit = 0, units = 1;  // which of how many channels
};

// Banks with open rows, first-ready first-come first-served. Throws std::invalid_argument for impossible
// figures.
std::unique_ptr<Channel> make_banked_channel(EventQueue& events, std::string name, ChannelOwner& owner,
                                             const BankedParams& params);
// A bandwidth and nothing else.
std::unique_ptr<Channel> make_ideal_channel(EventQueue& events, std::string name, ChannelOwner& owner,
                                            Tick burst_ticks, uint32_t queue_entries);

void check_timing(const BankedParams& params);

}  // namespace npu::timing
