// The fetch/decode/execute loop.
#include <algorithm>

#include "engine_core.h"

namespace npu::engine {

namespace {
// Spike's handlers return the next pc, or one of these odd values.
constexpr uint64_t kSerializeBefore = 3;
constexpr uint64_t kSerializeAfter = 5;

constexpr uint64_t kPollInstructions = 256;
constexpr std::chrono::milliseconds kPollInterval{50};

void locate(Fault& fault, uint64_t pc, const Decoded* entry) {
  if (fault.located) return;
  fault.pc = pc;
  fault.bits = entry != nullptr ? entry->bits() : 0;
  fault.located = true;
}
}  // namespace

template <bool kTiming>
void Core::run(uint64_t pc) {
  Decoded* entry = nullptr;
  try {
    while (pc != kReturnAddress) {
      entry = nullptr;
      if (executed_instructions_ >= next_check_) poll_and_check_budget();
      entry = &decoded(pc);
      if constexpr (kTiming) {
        if (entry->tile != 0 && current_tile_ == 0 && !enter_tile(entry->tile)) {
          pc = x(1);
          ++executed_instructions_;
          continue;
        }
        if (current_tile_ == 0 || tile_measured_) retire(*entry, pc);
      }
      ++executed_instructions_;
      ++counts_[static_cast<size_t>(entry->count)];
      const uint64_t next = execute(*entry, pc);
      if (entry->writes_sp) check_stack();
      if constexpr (kTiming) {
        if (entry->control) {
          if (next != pc + 4 && (current_tile_ == 0 || tile_measured_)) lane_core_.taken_branch();
          if (current_tile_ != 0 && next == tile_return_pc_) leave_tile();
        }
      }
      pc = next;
    }
  } catch (Fault& fault) {
    locate(fault, pc, entry);
    throw;
  } catch (trap_t& trap) {
    Fault fault(
        FaultKind::IllegalInstruction,
        std::string("refused by Spike (") + std::string(trap.name()) +
            "): its operands do not fit vtype, register groups overlap, or the rounding mode is reserved");
    locate(fault, pc, entry);
    throw fault;
  }
}

template void Core::run<false>(uint64_t pc);
template void Core::run<true>(uint64_t pc);

uint64_t Core::execute(Decoded& entry, uint64_t pc) {
  switch (entry.kind) {
    case Kind::Scalar:
      return run_spike(entry, pc);
    case Kind::ScalarLoad:
      scalar_load(entry);
      break;
    case Kind::ScalarStore:
      scalar_store(entry);
      break;
    case Kind::Csr: {
      check_csr(entry);
      const uint64_t next = run_spike(entry, pc);
      refresh_vector_config();
      return next;
    }
    case Kind::VectorConfig: {
      const uint64_t next = run_spike(entry, pc);
      executed.set(static_cast<size_t>(entry.row));
      refresh_vector_config();
      return next;
    }
    case Kind::VectorMemory:
      vector_memory(entry);
      executed.set(static_cast<size_t>(entry.row));
      break;
    case Kind::VectorArithmetic:
      if (params.reference_lanes || !run_native(entry)) run_lanes(entry, pc);
      executed.set(static_cast<size_t>(entry.row));
      break;
    case Kind::VectorToScalar:
      run_lanes_to_scalar(entry, pc);
      executed.set(static_cast<size_t>(entry.row));
      break;
    case Kind::Custom:
      custom(entry, pc);
      break;
    case Kind::Undecoded:
      throw Fault(FaultKind::IllegalInstruction, "instruction was not decoded");
  }
  return pc + 4;
}

uint64_t Core::run_spike(const Decoded& entry, uint64_t pc) {
  uint64_t next = entry.spike(processor_.get(), entry.insn, pc);
  if (next == kSerializeBefore) {
    state_->serialized = true;
    next = entry.spike(processor_.get(), entry.insn, pc);
  }
  if (next == kSerializeAfter) next = state_->pc;
  return next;
}

void Core::refresh_vector_config() {
  vectorUnit_t& unit = processor_->VU;
  vl_ = static_cast<uint32_t>(unit.vl->read());
  vill_ = unit.vill;
  round_to_nearest_ = state_->frm->read() == 0;
  sew_bytes_ = static_cast<uint32_t>(unit.vsew / 8);
  lmul_ = unit.vflmul;
  group_registers_ = lmul_ < 1 ? 1 : static_cast<uint32_t>(lmul_);
}

void Core::check_stack() {
  const uint64_t sp = x(2);
  if (sp >= stack_begin_ && sp <= slice_end_) [[likely]] {
    lowest_sp_ = std::min(lowest_sp_, sp);
    return;
  }
  const uint64_t needed = slice_end_ - sp;
  throw Fault(FaultKind::StackOverflow,
              sp > slice_end_
                  ? "sp moves above the stack to " + hex(sp)
                  : "the stack needs " + std::to_string(needed) + " bytes per lane, the reserve is " +
                        std::to_string(params.stack_reserve_bytes) + "; raise stack_reserve_bytes",
              -1, sp);
}

void Core::poll_and_check_budget() {
  if (executed_instructions_ >= params.instruction_budget)
    throw Fault(FaultKind::InstructionBudget, "the launch has executed " +
                                                  std::to_string(executed_instructions_) +
                                                  " instructions, its whole budget; an endless loop?");
  next_check_ = std::min(executed_instructions_ + kPollInstructions, params.instruction_budget);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_poll_) return;
  next_poll_ = now + kPollInterval;
  if ((*poll_)()) throw Fault(FaultKind::Interrupted, "the launch was interrupted");
}

}  // namespace npu::engine
