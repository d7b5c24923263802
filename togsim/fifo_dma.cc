// The DMA engine: descriptors are decoded one after another while earlier transfers are on their way. A
// transfer's bursts follow those of the one before; latencies overlap. The scratchpad side and the
// outstanding limit bound the rate.
#include <algorithm>
#include <stdexcept>

#include "burst_count.h"
#include "dma.h"

namespace npu::timing {
namespace {

class FifoDma final : public Dma {
 public:
  FifoDma(EventQueue& events, uint32_t core, Network& network, Memory& memory, const DmaParams& params)
      : events_(events), core_(core), network_(network), memory_(memory), params_(params) {
    if (!params.scratchpad_bytes_per_cycle) throw std::invalid_argument("scratchpad_bytes_per_cycle is 0");
    if (!params.max_outstanding) throw std::invalid_argument("max_outstanding is 0");
  }

  void start(const Transfer& transfer, std::function<void()> done) override {
    decoder_free_ = std::max(events_.now(), decoder_free_) + to_ticks(params_.issue_cycles);
    const uint64_t bursts = count_bursts(transfer, memory_.burst_bytes());
    ++stats_.transfers;
    stats_.scratchpad_bytes += transfer.scratchpad_bytes;
    (transfer.store ? stats_.bytes_written : stats_.bytes_read) += transfer.dram_bytes;
    (transfer.store ? stats_.bursts_written : stats_.bursts_read) += bursts;
    if (bursts == 0) return start_local(transfer, std::move(done));

    const Access access{core_, transfer.store, bursts, rate_limit(transfer, bursts), &transfer};
    events_.at(decoder_free_, [this, access, done = std::move(done)]() mutable {
      const uint64_t bytes = access.bursts * memory_.burst_bytes();
      network_.send(core_, true, access.store ? bytes : 0,
                    [this, access, bytes, done = std::move(done)]() mutable {
                      memory_.submit(access, [this, access, bytes, done = std::move(done)]() mutable {
                        network_.send(core_, false, access.store ? 0 : bytes, std::move(done));
                      });
                    });
    });
  }

  DmaStats stats() const override { return stats_; }

 private:
  // Nothing in DRAM: a tile that is all fill, or scratchpad to scratchpad.
  void start_local(const Transfer& transfer, std::function<void()> done) {
    const uint64_t cycles = (transfer.scratchpad_bytes + params_.scratchpad_bytes_per_cycle - 1) /
                            params_.scratchpad_bytes_per_cycle;
    local_free_ = std::max(decoder_free_, local_free_) + to_ticks(cycles);
    events_.at(local_free_, std::move(done));
  }

  Rate rate_limit(const Transfer& transfer, uint64_t bursts) const {
    const uint64_t burst_bytes = memory_.burst_bytes();
    // Little's law: bursts in flight / round trip.
    const uint64_t round_trip =
        std::max<uint64_t>(1, 2 * network_.latency_cycles() + memory_.latency_cycles());
    Rate limit =
        to_rate(static_cast<double>(params_.max_outstanding * burst_bytes) / static_cast<double>(round_trip));
    if (transfer.scratchpad_bytes) {
      // The scratchpad side moves its bytes while the DRAM side moves whole bursts.
      const double dram_per_scratchpad =
          static_cast<double>(bursts * burst_bytes) / static_cast<double>(transfer.scratchpad_bytes);
      limit = std::min(
          limit, to_rate(dram_per_scratchpad * static_cast<double>(params_.scratchpad_bytes_per_cycle)));
    }
    return std::max<Rate>(limit, 1);
  }

  EventQueue& events_;
  uint32_t core_;
  Network& network_;
  Memory& memory_;
  DmaParams params_;
  DmaStats stats_;
  Tick decoder_free_ = 0;
  Tick local_free_ = 0;
};

}  // namespace

std::unique_ptr<Dma> make_fifo_dma(EventQueue& events, uint32_t core, Network& network, Memory& memory,
                                   const DmaParams& params) {
  return std::make_unique<FifoDma>(events, core, network, memory, params);
}

}  // namespace npu::timing
