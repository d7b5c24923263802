// Issue, functional units, commit.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "minor_pipeline.h"

namespace npu {
namespace {

constexpr size_t kLookahead = 64;  // instructions that wait for fetch; more than one cycle can take
constexpr uint64_t kStuckCycles = 100'000;

}  // namespace

MinorPipeline::MinorPipeline(const MinorParams& params, uint32_t vlen_bits)
    : params_(params), vlen_bits_(vlen_bits) {
  const MinorParams& p = params_;
  for (uint32_t figure : {p.fetch_line_bytes,
                          p.fetches_in_flight,
                          p.fetch_buffer_lines,
                          p.decode_width,
                          p.decode_buffer_entries,
                          p.issue_buffer_entries,
                          p.issue_width,
                          p.memory_issue_width,
                          p.commit_width,
                          p.memory_commit_width,
                          p.branch_delay_cycles,
                          p.int_units,
                          p.int_cycles,
                          p.mul_cycles,
                          p.div_cycles,
                          p.vector_units,
                          p.vector_cycles,
                          p.memory_units,
                          p.memory_cycles,
                          p.memory_width_bytes,
                          p.cache_cycles,
                          p.accesses_in_memory,
                          p.transfer_entries,
                          p.store_buffer_entries,
                          p.stores_per_cycle}) {
    if (figure == 0) throw std::invalid_argument("MinorParams: every width, count and latency is at least 1");
  }
  predictor_.clear();
  auto add = [&](Unit kind, uint32_t count, uint32_t latency, uint32_t interval, uint32_t early) {
    for (uint32_t i = 0; i < count; ++i)
      units_.push_back({kind, latency, interval, early, false, 0, std::deque<uint64_t>(latency + 1, 0)});
  };
  add(kAlu, p.int_units, p.int_cycles, 1, p.int_early_cycles);
  add(kMul, 1, p.mul_cycles, 1, 0);
  add(kDiv, 1, p.div_cycles, p.div_cycles, 0);
  add(kVector, p.vector_units, p.vector_cycles, 1, p.vector_early_cycles);
  add(kMemory, p.memory_units, p.memory_cycles, 1, p.memory_early_cycles);
}

void MinorPipeline::retire(const InstructionTiming& instruction, const VectorState& state, uint64_t address,
                           uint64_t pc) {
  if (!fetching_ && next_seq_ == 1 && waiting_.empty() && !has_pending_) {  // the first instruction
    fetching_ = true;
    fetch_address_ = pc;
  }
  predict_pending(pc, state);
  pending_ = {pc, false, false, micro_ops(instruction, state, address)};
  pending_kind_ = instruction.branch;
  pending_state_ = state;
  pending_size_ = instruction.size_bytes;
  has_pending_ = true;
  while (waiting_.size() > kLookahead) step();
}

uint64_t MinorPipeline::finish() {
  predict_pending(pending_.pc + pending_size_, pending_state_);
  while (!waiting_.empty() || !decode_latch_.empty() || !decode_buffer_.empty() || !execute_latch_.empty() ||
         !execute_buffer_.empty() || !in_flight_.empty())
    step();
  return last_commit_;
}

void MinorPipeline::step() {
  if (now_ > last_commit_ + kStuckCycles)
    throw std::runtime_error("gem5_minor: nothing has committed for " + std::to_string(kStuckCycles) +
                             " cycles");
  execute();
  decode();
  fetch_instructions();
  fetch_lines();
  ++now_;
}

void MinorPipeline::execute() {
  sent_in_cycle_ = 0;
  receive_responses();
  if (!execute_latch_.empty()) execute_buffer_.push_back(std::move(execute_latch_));
  execute_latch_.clear();
  step_queue();
  commit();
  issue_all();
  advance_units();
}

bool MinorPipeline::sources_ready(const MicroOp& op, uint32_t early) const {
  for (uint8_t s = 0; s < op.source_count; ++s) {
    const Register& reg = registers_[op.sources[s]];
    if (reg.unpredictable != 0 || reg.ready > now_ + early) return false;
  }
  return true;
}

// Into the first unit of its kind that takes it.
bool MinorPipeline::issue(MicroOp& op) {
  for (uint32_t i = 0; i < units_.size(); ++i) {
    FunctionalUnit& unit = units_[i];
    if (unit.kind != op.unit || unit.slots.front() != 0 || unit.stalled || now_ < unit.next_insert) continue;
    if (!sources_ready(op, unit.early)) continue;
    InFlight entry{op, i, 0, false};
    if (op.memory()) {
      for (uint8_t s = 0; s < op.source_count; ++s)
        entry.wait_for = std::max(entry.wait_for, registers_[op.sources[s]].writer);
      memory_in_units_.push_back(op.seq);
    }
    unit.slots.front() = op.seq;
    if (op.dest != kNoRegister) {
      const uint32_t assumed = op.memory() ? params_.load_assumed_cycles : 0;
      Register& reg = registers_[op.dest];
      ++reg.results;
      reg.ready = now_ + unit.latency + assumed;
      reg.writer = op.seq;
      if (op.memory() && assumed == 0) ++reg.unpredictable;
    }
    in_flight_.push_back(std::move(entry));
    return true;
  }
  return false;
}

void MinorPipeline::issue_all() {
  uint32_t issued = 0, memory_issued = 0;
  while (!execute_buffer_.empty() && issued < params_.issue_width &&
         memory_issued < params_.memory_issue_width) {
    std::vector<MicroOp>& group = execute_buffer_.front();
    MicroOp& op = group[execute_index_];
    if (!issue(op)) return;
    ++issued;
    memory_issued += op.memory();
    if (++execute_index_ == group.size()) {
      execute_buffer_.pop_front();
      execute_index_ = 0;
    }
  }
}

void MinorPipeline::advance_units() {
  for (FunctionalUnit& unit : units_) {
    if (unit.slots.front() != 0) {
      if (unit.next_insert <= now_) unit.next_insert = now_ + unit.interval;
    } else if (unit.stalled && unit.next_insert != 0) {
      ++unit.next_insert;
    }
    if (unit.stalled) continue;
    unit.slots.pop_back();
    unit.slots.push_front(0);
    unit.stalled = unit.slots.back() != 0;
  }
}

// In order, from the oldest on; a memory operation leaves its unit for the queue as soon as what it reads has
// committed, and commits when it is the oldest and answered.
void MinorPipeline::commit() {
  uint32_t committed = 0, memory_committed = 0;
  while (!in_flight_.empty() && committed < params_.commit_width) {
    InFlight& head = in_flight_.front();
    const uint64_t seq = head.op.seq;
    bool done = false;
    if (head.in_queue && response_of(seq) && memory_committed < params_.memory_commit_width) {
      const Access access = transfers_.front();
      transfers_.pop_front();
      if (access.store) store_buffer_.push_back(access);
      ++memory_committed;
      done = true;
    } else {
      InFlight* chosen = nullptr;
      if (!memory_in_units_.empty() && !has_request_) {
        InFlight& memory = in_flight(memory_in_units_.front());
        if (units_[memory.unit].slots.back() == memory.op.seq && seq > memory.wait_for) chosen = &memory;
      }
      if (chosen == nullptr && !head.in_queue && units_[head.unit].slots.back() == seq) chosen = &head;
      if (chosen == nullptr) return;
      if (chosen->op.memory()) {
        if (has_request_) return;
        units_[chosen->unit].stalled = false;
        units_[chosen->unit].slots.back() = 0;
        memory_in_units_.pop_front();
        chosen->in_queue = true;
        request(chosen->op);
        continue;
      }
      units_[chosen->unit].stalled = false;
      done = true;
    }
    if (!done) return;
    if (head.op.dest != kNoRegister) {
      Register& reg = registers_[head.op.dest];
      if (head.op.memory() && reg.unpredictable != 0) --reg.unpredictable;
      if (--reg.results == 0) reg.ready = reg.writer = 0;
    }
    const bool redirects = head.op.redirects;
    if (!head.op.memory()) units_[head.unit].slots.back() = 0;
    in_flight_.pop_front();
    ++committed;
    last_commit_ = now_;
    if (redirects) {
      redirect_ = flush_lines_ = true;
      redirect_at_ = now_ + params_.branch_delay_cycles;
      return;
    }
  }
}

}  // namespace npu
