// A core that plays its trace: cycles pass, transfers start, waits last until the tag's transfers are done.
// In order, so nothing runs during a wait but the DMA engine.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "core.h"

namespace npu::timing {
namespace {

constexpr uint32_t kTags = 32;

class TraceCore final : public Core {
 public:
  TraceCore(EventQueue& events, Dma& dma, const Trace& trace) : events_(events), dma_(dma), trace_(trace) {
    for (const TraceOp& op : trace.ops) {
      const bool transfer = op.kind == TraceOp::Kind::Start || op.kind == TraceOp::Kind::Wait;
      if (transfer && op.tag >= kTags) throw std::invalid_argument("trace: tag " + std::to_string(op.tag));
      if (op.kind == TraceOp::Kind::Start && op.index >= trace.transfers.size()) {
        throw std::invalid_argument("trace: transfer " + std::to_string(op.index) + " does not exist");
      }
    }
  }

  void start() override { play(); }
  bool finished() const override { return finished_; }
  CoreStats stats() const override { return stats_; }

  std::string waiting_for() const override {
    if (finished_) return "nothing";
    return "tag " + std::to_string(waited_tag_) + " with " + std::to_string(pending_[waited_tag_]) +
           " transfers pending, operation " + std::to_string(next_) + " of " +
           std::to_string(trace_.ops.size());
  }

 private:
  // Runs operations until one takes time.
  void play() {
    while (next_ < trace_.ops.size()) {
      const TraceOp& op = trace_.ops[next_];
      switch (op.kind) {
        case TraceOp::Kind::Scalar:
        case TraceOp::Kind::Tile:
          (op.kind == TraceOp::Kind::Tile ? stats_.tile_cycles : stats_.scalar_cycles) += op.cycles;
          ++next_;
          if (op.cycles) return events_.at(events_.now() + to_ticks(op.cycles), [this] { play(); });
          break;
        case TraceOp::Kind::Start: {
          const Transfer& transfer = trace_.transfers[op.index];
          ++pending_[op.tag];
          ++next_;
          dma_.start(transfer, [this, tag = op.tag, store = transfer.store] { arrived(tag, store); });
          break;
        }
        case TraceOp::Kind::Wait:
          if (pending_[op.tag]) {
            waiting_ = true;
            waited_tag_ = op.tag;
            wait_began_ = events_.now();
            return;
          }
          ++next_;
          break;
      }
    }
    finished_ = true;
    stats_.end_cycle = to_cycles(events_.now());
  }

  void arrived(uint32_t tag, bool store) {
    if (--pending_[tag] || !waiting_ || tag != waited_tag_) return;
    waiting_ = false;
    ++next_;
    // The core goes on at a clock edge.
    const Tick edge = to_ticks(to_cycles(events_.now()));
    (store ? stats_.store_wait_cycles : stats_.load_wait_cycles) += to_cycles(edge - wait_began_);
    events_.at(edge, [this] { play(); });
  }

  EventQueue& events_;
  Dma& dma_;
  const Trace& trace_;
  CoreStats stats_;
  std::array<uint32_t, kTags> pending_{};
  size_t next_ = 0;
  bool waiting_ = false;
  bool finished_ = false;
  uint32_t waited_tag_ = 0;
  Tick wait_began_ = 0;
};

}  // namespace

std::unique_ptr<Core> make_trace_core(EventQueue& events, Dma& dma, const Trace& trace) {
  return std::make_unique<TraceCore>(events, dma, trace);
}

}  // namespace npu::timing
