#include <algorithm>
#include <bit>

#include "flow_channel.h"
#include "flow_dma.h"
#include "flow_fills.h"
#include "flow_network.h"
#include "memory_system.h"

namespace npu::timing {
namespace {

class FlowSystem final : public MemorySystem, public FlowPath, public Actor {
 public:
  FlowSystem(EventQueue& events, uint32_t cores, const MemorySystemParams& params, L2Tags* tags)
      : events_(events),
        params_(params),
        map_(params.geometry),
        network_(cores, static_cast<uint32_t>(params.units()), params.geometry.burst_bytes, params.network),
        controller_(to_ticks(params.memory_cycles())),
        stretch_(std::max(kTicksPerCycle, controller_ + 2 * network_.shortest())),
        tags_(tags),
        l2_free_(tags ? params.units() : 0) {
    const DramGeometry& geometry = params.geometry;
    params_.banks.bank_groups = geometry.bank_groups;
    params_.banks.banks_per_group = geometry.banks_per_group;
    const uint32_t units = geometry.channels * geometry.pseudo_channels;
    params_.banks.units = units;
    for (uint32_t unit = 0; unit < units; ++unit) {
      params_.banks.unit = unit;
      const std::string name = "dram channel " + std::to_string(unit);
      channels_.push_back(params.banked ? make_banked_flow_channel(name, params_.banks)
                                        : make_ideal_flow_channel(name, params.ideal_burst_ticks()));
    }
    for (uint32_t core = 0; core < cores; ++core)
      engines_.push_back(std::make_unique<FlowDma>(events, core, *this, geometry.burst_bytes, params.dma));
  }

  void request(uint32_t core, bool store, uint32_t job, std::span<const FlowBurst> bursts) override {
    for (const FlowBurst& burst : bursts) {
      const BurstLocation at = map_.locate(burst.number);
      const Tick there = network_.request(core, at.unit, store, burst.sent);
      if (tags_)
        look_up(burst.number, at, {core, job, there}, store);
      else
        push(at, there, core, job, store);
    }
  }

  // Within a stretch that has begun an engine sends at once: its answers cannot come before the next one.
  void wake(uint32_t core) override {
    if (running_) return engines_[core]->send(until_);
    running_ = true;
    events_.at(events_.now(), *this, 0);
  }

  // A stretch of time begins. Everything that reaches a channel within the way there is known; everything
  // that they answer is back before the stretch after it begins.
  void act(uint64_t) override {
    const Tick now = events_.now();
    fills_.forget(now);
    for (uint32_t unit = 0; unit < channels_.size(); ++unit) {
      if (channels_[unit]->idle()) continue;
      channels_[unit]->advance(now + network_.shortest(), answers_);
      for (const FlowAnswer& answer : answers_) {
        const Tick back = answer.done + controller_;
        if (answer.core != kL2)
          respond(unit, answer.core, answer.job, answer.store, back);
        else if (answer.job != kWriteBack)
          for (const auto& one : fills_.end(answer.job, back))
            respond(unit, one.core, one.job, false, std::max(one.ready, back));
      }
      answers_.clear();
    }
    until_ = now + stretch_;
    for (auto& engine : engines_) engine->send(until_);
    const auto idle = [](const auto& part) { return part->idle(); };
    running_ = !std::all_of(engines_.begin(), engines_.end(), idle) ||
               !std::all_of(channels_.begin(), channels_.end(), idle);
    if (running_) events_.at(until_, *this, 0);
  }

  Dma& engine(uint32_t core) override { return *engines_[core]; }

  MemoryStats memory() const override {
    std::vector<DmaStats> stats;
    for (const auto& engine : engines_) stats.push_back(engine->stats());
    return memory_stats(params_, stats, tags_);
  }
  Tick written() const override {
    Tick end = 0;
    for (const auto& channel : channels_) end = std::max(end, channel->written());
    return end;
  }
  std::string engine_waiting_for(uint32_t) const override { return ""; }
  std::string waiting_for() const override { return ""; }

  std::vector<ComponentStats> statistics(Tick end) override {
    std::vector<ComponentStats> rows;
    for (auto& engine : engines_) rows.push_back(engine->component());
    if (tags_) rows.push_back(tags_->stats());
    for (auto& channel : channels_) rows.push_back(channel->stats(end));
    network_.report(end, rows);
    return rows;
  }

 private:
  static constexpr uint16_t kL2 = ~uint16_t{0};         // in place of a core: the L2 asks
  static constexpr uint32_t kWriteBack = ~uint32_t{0};  // a job that nobody waits for

  void push(const BurstLocation& at, Tick there, uint32_t core, uint32_t job, bool store) {
    channels_[at.unit]->push(
        {there, at.row, job, static_cast<uint16_t>(core), static_cast<uint8_t>(at.bank), store});
  }
  void respond(uint32_t unit, uint32_t core, uint32_t job, bool store, Tick from) {
    engines_[core]->answered(job, network_.response(core, unit, !store, from));
  }

  // A request is at the L2 at `from.ready`.
  void look_up(uint64_t burst, const BurstLocation& at, FlowFills::Waiting from, bool store) {
    Tick& port = l2_free_[at.unit];
    port = std::max(port, from.ready) + params_.l2_burst_ticks();
    from.ready = port + to_ticks(params_.l2.latency_cycles);
    const L2Tags::Outcome outcome = tags_->access(burst, store);
    for (uint64_t rest = outcome.dirty; rest; rest &= rest - 1) {
      const BurstLocation victim =
          map_.locate(outcome.victim + static_cast<uint64_t>(std::countr_zero(rest)));
      push(victim, from.ready, kL2, kWriteBack, true);
    }
    if (store) {
      if (outcome.hit || !outcome.around)
        respond(at.unit, from.core, from.job, true, from.ready);
      else
        push(at, from.ready, from.core, from.job, true);
    } else if (outcome.hit) {
      const Tick ready = fills_.join(burst, from);
      if (ready != kNever) respond(at.unit, from.core, from.job, false, ready);
    } else {
      push(at, from.ready, kL2, fills_.begin(burst, from), false);
    }
  }

  EventQueue& events_;
  MemorySystemParams params_;
  AddressMap map_;
  FlowNetwork network_;
  Tick controller_;
  Tick stretch_, until_ = 0;
  bool running_ = false;
  std::vector<FlowAnswer> answers_;
  L2Tags* tags_;  // null: no L2
  FlowFills fills_;
  std::vector<Tick> l2_free_;  // ports of its slices
  std::vector<std::unique_ptr<FlowChannel>> channels_;
  std::vector<std::unique_ptr<FlowDma>> engines_;
};

}  // namespace

std::unique_ptr<MemorySystem> make_flow_system(EventQueue& events, uint32_t cores,
                                               const MemorySystemParams& params, L2Tags* tags) {
  return std::make_unique<FlowSystem>(events, cores, params, tags);
}

}  // namespace npu::timing
