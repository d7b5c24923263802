// The in-order scoreboard (docs/timing_model.md, Lane core). Registers, units and ports of one lane stand for
// all.
#include "lane_core.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "minor_pipeline.h"

namespace npu {
namespace {

// Functional units. `None` is never busy: as many as the issue width.
enum UnitName : uint8_t {
  kNone,
  kIntMul,
  kIntDiv,
  kFp,
  kFpDiv,
  kVector,
  kDivide,
  kPermute,
  kSfu,
  kXlu,
  kLoad,
  kStore,
  kUnits
};

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("LaneCoreParams: ") + what);
}

}  // namespace

LaneCore::LaneCore(const LaneCoreParams& params)
    : params_(params), units_(kUnits), arrays_(params.array_count) {
  const LaneCoreParams& p = params_;
  require(p.lanes >= 1 && p.issue_width >= 1, "lanes and issue_width are at least 1");
  require(p.vlen_bits >= 64 && p.datapath_bits >= 8, "vlen_bits is at least 64 and datapath_bits at least 8");
  require(p.load_ports >= 1 && p.load_ports <= 8, "load_ports is 1 to 8");
  require(p.store_ports >= 1 && p.store_ports <= 8, "store_ports is 1 to 8");
  require(p.vector_units >= 1 && p.vector_units <= 8, "vector_units is 1 to 8");
  require(p.port_bytes >= 1 && p.sfu_elements_per_cycle >= 1,
          "port_bytes and sfu_elements_per_cycle are at least 1");
  require(std::has_single_bit(p.vlen_bits) && std::has_single_bit(p.datapath_bits) &&
              std::has_single_bit(p.port_bytes),
          "vlen_bits, datapath_bits and port_bytes are powers of two");
  require(p.array_count <= 8, "array_count is at most 8");
  require(p.array_queue_entries >= 1, "array_queue_entries is at least 1");

  vlen_shift_ = std::countr_zero(p.vlen_bits);
  datapath_shift_ = std::countr_zero(p.datapath_bits);
  port_shift_ = std::countr_zero(p.port_bytes);
  for (UnitName unit : {kIntMul, kIntDiv, kFp, kFpDiv, kDivide, kPermute, kSfu, kXlu})
    units_[unit].copies = 1;
  units_[kVector].copies = p.vector_units;
  units_[kLoad].copies = p.load_ports;
  units_[kStore].copies = p.store_ports;

  set_class(OpClass::IntAlu, kNone, p.int_alu_cycles);
  set_class(OpClass::IntMul, kIntMul, p.int_mul_cycles);
  set_class(OpClass::IntDiv, kIntDiv, p.int_div_cycles, p.int_div_cycles);
  set_class(OpClass::FpAlu, kFp, p.fp_alu_cycles);
  set_class(OpClass::FpMove, kFp, p.fp_move_cycles);
  set_class(OpClass::FpDiv, kFpDiv, p.fp_div_cycles, p.fp_div_cycles);
  set_class(OpClass::Branch, kNone, p.int_alu_cycles);
  set_class(OpClass::ScalarLoad, kLoad, p.scalar_load_cycles);
  set_class(OpClass::ScalarStore, kStore, 1);
  set_class(OpClass::Csr, kNone, p.int_alu_cycles);
  set_class(OpClass::VectorConfig, kNone, p.vector_config_cycles);
  set_class(OpClass::VectorAlu, kVector, p.vector_alu_cycles);
  set_class(OpClass::VectorMul, kVector, p.vector_mul_cycles);
  set_class(OpClass::VectorDiv, kDivide, p.vector_div_cycles_per_beat, p.vector_div_cycles_per_beat);
  set_class(OpClass::VectorFp, kVector, p.vector_fp_cycles);
  set_class(OpClass::VectorFpDiv, kDivide, p.vector_fp_div_cycles_per_beat, p.vector_fp_div_cycles_per_beat);
  set_class(OpClass::VectorReduce, kVector, p.vector_fp_cycles);
  set_class(OpClass::VectorReduceOrdered, kVector, p.vector_fp_cycles);
  set_class(OpClass::VectorSlide, kPermute, p.vector_permute_cycles);
  set_class(OpClass::VectorGather, kPermute, p.vector_permute_cycles);
  set_class(OpClass::VectorToScalar, kPermute, p.vector_permute_cycles);
  set_class(OpClass::VectorLoad, kLoad, p.scratchpad_load_cycles);
  set_class(OpClass::VectorLoadElements, kLoad, p.scratchpad_load_cycles, 1, 1);
  set_class(OpClass::VectorStore, kStore, p.scratchpad_store_cycles);
  set_class(OpClass::VectorStoreElements, kStore, p.scratchpad_store_cycles, 1, 1);
  set_class(OpClass::Sfu, kSfu, p.sfu_cycles, 1, p.sfu_elements_per_cycle);
  set_class(OpClass::Xlu, kXlu, p.xlu_cycles);
  set_class(OpClass::LaneId, kVector, p.vector_alu_cycles);
  // The arrays have queues of their own; reading or writing the vector registers costs a beat per row.
  set_class(OpClass::ArrayWeights, kNone, 1, 1, 1);
  set_class(OpClass::ArrayInputs, kNone, 1, 1, 1);
  set_class(OpClass::ArrayPop, kNone, 1, 1, 1);
  set_class(OpClass::Dma, kNone, 1);
  if (p.use_minor) minor_ = std::make_unique<MinorPipeline>(p.minor, p.vlen_bits);
}

LaneCore::~LaneCore() = default;

void LaneCore::set_class(OpClass op, uint8_t unit, uint32_t latency, uint32_t per_beat, uint32_t elements) {
  classes_[static_cast<size_t>(op)] = {unit, std::max(latency, 1u), per_beat, elements};
}

void LaneCore::begin() {
  work_ = {};
  if (minor_) {
    minor_ = std::make_unique<MinorPipeline>(params_.minor, params_.vlen_bits);
    return;
  }
  // No register, unit or port is in use any more once everything issued is complete: nothing needs to be
  // cleared.
  begin_cycle_ = issue_cycle_ = begin_cycle_ + drain();
  issued_in_cycle_ = 0;
  reset_arrays();
}

uint64_t LaneCore::earliest() const { return issue_cycle_ + (issued_in_cycle_ >= params_.issue_width); }

void LaneCore::issue_at(uint64_t cycle, const Waits& waits) {
  if (cycle != issue_cycle_) {
    // The cycle that is left counts as one that issued; the first one waited for may be it.
    uint64_t from = issue_cycle_;
    if (issued_in_cycle_ > 0) ++from, ++work_[Work::IssueCycles];
    const auto waited = [&](Work cause, uint64_t until) {
      if (until <= from) return;
      work_[cause] += until - from;
      from = until;
    };
    waited(Work::ScalarWaits, waits.scalar);
    waited(Work::VectorWaits, waits.vector);
    waited(Work::UnitWaits, waits.unit);
    waited(Work::ArrayWaits, cycle);
  }
  issued_in_cycle_ = cycle == issue_cycle_ ? issued_in_cycle_ + 1 : 1;
  issue_cycle_ = cycle;
}

uint64_t LaneCore::elapsed() const {
  if (minor_) return minor_->finish();
  return issue_cycle_ + (issued_in_cycle_ > 0) - begin_cycle_;
}

uint64_t LaneCore::drain() const {
  if (minor_) return minor_->finish();
  return std::max(issue_cycle_ + (issued_in_cycle_ > 0), last_done_) - begin_cycle_;
}

void LaneCore::taken_branch() {
  if (minor_) return;  // it sees the next instruction's address
  work_[Work::IssueCycles] += issued_in_cycle_ > 0;
  work_[Work::BranchCycles] += params_.taken_branch_cycles + (issued_in_cycle_ == 0);
  issue_cycle_ += 1 + params_.taken_branch_cycles;
  issued_in_cycle_ = 0;
}

// The first cycle from `cycle` on in which a copy of the unit is free; it is then busy.
uint64_t LaneCore::take_unit(const ClassTiming& timing, uint64_t cycle, uint64_t busy) {
  Unit& unit = units_[timing.unit];
  if (unit.copies == 0) return cycle;
  uint64_t* free = std::min_element(unit.free.begin(), unit.free.begin() + unit.copies);
  cycle = std::max(cycle, *free);
  *free = cycle + busy;
  return cycle;
}

void LaneCore::retire(const InstructionTiming& instruction, const VectorState& state, uint64_t address,
                      uint64_t pc) {
  count_work(instruction, state);
  if (minor_) [[unlikely]]
    return minor_->retire(instruction, state, address, pc);
  if (instruction.vector) return retire_vector(instruction, state, address);
  const ClassTiming& timing = classes_[static_cast<size_t>(instruction.op)];
  uint64_t cycle = earliest();
  for (uint8_t reg : instruction.scalar_sources) cycle = std::max(cycle, scalar_ready_[reg]);
  const uint64_t scalar = cycle;
  cycle = take_unit(timing, cycle, timing.cycles_per_beat);
  const uint64_t done = cycle + timing.latency;
  if (instruction.scalar_dest) {
    // Results of one register become visible in program order, whatever the units' latencies.
    scalar_ready_[instruction.scalar_dest] = std::max(done, scalar_ready_[instruction.scalar_dest]);
  }
  if (instruction.op == OpClass::VectorConfig) config_ready_ = done;
  last_done_ = std::max(last_done_, done);
  issue_at(cycle, {scalar, scalar, cycle});
}

}  // namespace npu
