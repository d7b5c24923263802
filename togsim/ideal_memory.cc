// DRAM without banks: latency, bandwidth and burst granularity.
//
// Each port is a queue of streams; the front ones flow at the same time. The bandwidth is divided max-min
// fairly: a stream that cannot use its share (rate limit) leaves the rest to the others. Rates change only
// when a stream starts or ends, so a transfer costs a few events whatever its size.
#include <algorithm>
#include <deque>
#include <stdexcept>
#include <vector>

#include "memory.h"

namespace npu::timing {
namespace {

// Bytes in the unit rate x ticks.
using Work = unsigned __int128;

class IdealMemory final : public Memory {
 public:
  IdealMemory(EventQueue& events, uint32_t ports, const IdealMemoryParams& params)
      : events_(events), params_(params), bandwidth_(to_rate(params.bytes_per_cycle)), ports_(ports) {
    if (!(params.bytes_per_cycle > 0) || bandwidth_ == 0) throw std::invalid_argument("DRAM bandwidth is 0");
    if (params.burst_bytes == 0) throw std::invalid_argument("DRAM burst_bytes is 0");
    if (bandwidth_ < ports) throw std::invalid_argument("DRAM bandwidth is too small to share");
  }

  void submit(const Access& access, std::function<void()> done) override {
    const uint64_t bytes = access.bursts * params_.burst_bytes;
    (access.store ? stats_.written_bursts : stats_.read_bursts) += access.bursts;
    const Rate limit = access.rate_limit ? std::min(access.rate_limit, bandwidth_) : bandwidth_;
    ports_.at(access.port)
        .push_back({Work{bytes} << (2 * kTickBits), events_.now() + to_ticks(params_.latency_cycles), limit,
                    std::move(done)});
    update();
  }

  uint32_t burst_bytes() const override { return params_.burst_bytes; }
  uint64_t latency_cycles() const override { return params_.latency_cycles; }

  MemoryStats stats() const override {
    MemoryStats stats = stats_;
    const Work bytes = Work{stats.read_bursts + stats.written_bursts} * params_.burst_bytes;
    stats.busy_cycles = static_cast<uint64_t>(((bytes << kTickBits) + bandwidth_ - 1) / bandwidth_);
    return stats;
  }

 private:
  struct Stream {
    Work left;
    Tick ready;  // first byte can flow
    Rate limit;
    std::function<void()> done;
    Rate rate = 0;
  };

  // Brings all streams to the present, ends the finished ones, shares the bandwidth anew, plans the next
  // change.
  void update() {
    const Tick now = events_.now();
    std::vector<std::function<void()>> finished;
    for (auto& port : ports_) {
      if (port.empty()) continue;
      Stream& stream = port.front();
      const Work moved = Work{stream.rate} * (now - last_update_);
      stream.left = moved >= stream.left ? 0 : stream.left - moved;
      if (stream.left == 0 && stream.ready <= now) {
        finished.push_back(std::move(stream.done));
        port.pop_front();
      }
    }
    last_update_ = now;
    share(now);
    plan(now);
    for (auto& done : finished) done();
  }

  void share(Tick now) {
    std::vector<Stream*> flowing;
    for (auto& port : ports_) {
      if (port.empty()) continue;
      port.front().rate = 0;
      if (port.front().ready <= now) flowing.push_back(&port.front());
    }
    std::stable_sort(flowing.begin(), flowing.end(), [](auto* a, auto* b) { return a->limit < b->limit; });
    Rate left = bandwidth_;
    for (size_t i = 0; i < flowing.size(); ++i) {
      flowing[i]->rate = std::max<Rate>(1, std::min(flowing[i]->limit, left / (flowing.size() - i)));
      left -= std::min(left, flowing[i]->rate);
    }
  }

  void plan(Tick now) {
    Tick next = ~Tick{0};
    for (const auto& port : ports_) {
      if (port.empty()) continue;
      const Stream& stream = port.front();
      next =
          std::min(next, stream.rate ? now + static_cast<Tick>((stream.left + stream.rate - 1) / stream.rate)
                                     : std::max(stream.ready, now));
    }
    const uint64_t generation = ++generation_;
    if (next == ~Tick{0}) return;
    events_.at(next, [this, generation] {
      if (generation == generation_) update();
    });
  }

  EventQueue& events_;
  IdealMemoryParams params_;
  Rate bandwidth_;
  std::vector<std::deque<Stream>> ports_;
  MemoryStats stats_;
  Tick last_update_ = 0;
  uint64_t generation_ = 0;  // plans made before the last change are void
};

}  // namespace

std::unique_ptr<Memory> make_ideal_memory(EventQueue& events, uint32_t ports,
                                          const IdealMemoryParams& params) {
  return std::make_unique<IdealMemory>(events, ports, params);
}

}  // namespace npu::timing
