// The in-order scoreboard (docs/timing_model.md, Lane core). Registers, units and ports of one lane stand for
// all.
#include "lane_core.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

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

uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

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
  require(p.array_count <= 8, "array_count is at most 8");
  require(p.array_queue_entries >= 1, "array_queue_entries is at least 1");

  for (UnitName unit : {kIntMul, kIntDiv, kFp, kFpDiv, kDivide, kPermute, kSfu, kXlu})
    units_[unit].copies = 1;
  units_[kVector].copies = p.vector_units;
  units_[kLoad].copies = p.load_ports;
  units_[kStore].copies = p.store_ports;

  auto set = [this](OpClass op, UnitName unit, uint32_t latency, uint32_t per_beat = 1,
                    uint32_t elements = 0) {
    classes_[static_cast<size_t>(op)] = {unit, std::max(latency, 1u), per_beat, elements};
  };
  set(OpClass::IntAlu, kNone, p.int_alu_cycles);
  set(OpClass::IntMul, kIntMul, p.int_mul_cycles);
  set(OpClass::IntDiv, kIntDiv, p.int_div_cycles, p.int_div_cycles);
  set(OpClass::FpAlu, kFp, p.fp_alu_cycles);
  set(OpClass::FpMove, kFp, p.fp_move_cycles);
  set(OpClass::FpDiv, kFpDiv, p.fp_div_cycles, p.fp_div_cycles);
  set(OpClass::Branch, kNone, p.int_alu_cycles);
  set(OpClass::ScalarLoad, kLoad, p.scalar_load_cycles);
  set(OpClass::ScalarStore, kStore, 1);
  set(OpClass::Csr, kNone, p.int_alu_cycles);
  set(OpClass::VectorConfig, kNone, p.vector_config_cycles);
  set(OpClass::VectorAlu, kVector, p.vector_alu_cycles);
  set(OpClass::VectorMul, kVector, p.vector_mul_cycles);
  set(OpClass::VectorDiv, kDivide, p.vector_div_cycles_per_beat, p.vector_div_cycles_per_beat);
  set(OpClass::VectorFp, kVector, p.vector_fp_cycles);
  set(OpClass::VectorFpDiv, kDivide, p.vector_fp_div_cycles_per_beat, p.vector_fp_div_cycles_per_beat);
  set(OpClass::VectorReduce, kVector, p.vector_fp_cycles);
  set(OpClass::VectorReduceOrdered, kVector, p.vector_fp_cycles);
  set(OpClass::VectorSlide, kPermute, p.vector_permute_cycles);
  set(OpClass::VectorGather, kPermute, p.vector_permute_cycles);
  set(OpClass::VectorToScalar, kPermute, p.vector_permute_cycles);
  set(OpClass::VectorLoad, kLoad, p.scratchpad_load_cycles);
  set(OpClass::VectorLoadElements, kLoad, p.scratchpad_load_cycles, 1, 1);
  set(OpClass::VectorStore, kStore, p.scratchpad_store_cycles);
  set(OpClass::VectorStoreElements, kStore, p.scratchpad_store_cycles, 1, 1);
  set(OpClass::Sfu, kSfu, p.sfu_cycles, 1, p.sfu_elements_per_cycle);
  set(OpClass::Xlu, kXlu, p.xlu_cycles);
  set(OpClass::LaneId, kVector, p.vector_alu_cycles);
  // The arrays have queues of their own; reading or writing the vector registers costs a beat per row.
  set(OpClass::ArrayWeights, kNone, 1, 1, 1);
  set(OpClass::ArrayInputs, kNone, 1, 1, 1);
  set(OpClass::ArrayPop, kNone, 1, 1, 1);
  set(OpClass::Dma, kNone, 1);
}

void LaneCore::begin() {
  issue_cycle_ = config_ready_ = last_done_ = 0;
  issued_in_cycle_ = 0;
  scalar_ready_.fill(0);
  vector_.fill({});
  for (Unit& unit : units_) unit.free.fill(0);
  for (Array& array : arrays_) {
    array.weights_loaded = array.weights_free = array.inputs_free = 0;
    array.results.clear();
  }
}

uint64_t LaneCore::earliest() const { return issue_cycle_ + (issued_in_cycle_ >= params_.issue_width); }

void LaneCore::issue_at(uint64_t cycle) {
  issued_in_cycle_ = cycle == issue_cycle_ ? issued_in_cycle_ + 1 : 1;
  issue_cycle_ = cycle;
}

uint64_t LaneCore::elapsed() const { return issue_cycle_ + (issued_in_cycle_ > 0); }

uint64_t LaneCore::drain() const { return std::max(elapsed(), last_done_); }

void LaneCore::taken_branch() {
  issue_cycle_ += 1 + params_.taken_branch_cycles;
  issued_in_cycle_ = 0;
}

void LaneCore::retire(const InstructionTiming& instruction, const VectorState& state, uint64_t address) {
  if (instruction.vector) return retire_vector(instruction, state, address);
  const ClassTiming& timing = classes_[static_cast<size_t>(instruction.op)];
  uint64_t cycle = earliest();
  for (uint8_t reg : instruction.scalar_sources) cycle = std::max(cycle, scalar_ready_[reg]);
  Unit& unit = units_[timing.unit];
  if (unit.copies) {
    uint64_t* free = std::min_element(unit.free.begin(), unit.free.begin() + unit.copies);
    cycle = std::max(cycle, *free);
    *free = cycle + timing.cycles_per_beat;
  }
  const uint64_t done = cycle + timing.latency;
  if (instruction.scalar_dest) {
    // Results of one register become visible in program order, whatever the units' latencies.
    scalar_ready_[instruction.scalar_dest] = std::max(done, scalar_ready_[instruction.scalar_dest]);
  }
  if (instruction.op == OpClass::VectorConfig) config_ready_ = done;
  last_done_ = std::max(last_done_, done);
  issue_at(cycle);
}

uint32_t LaneCore::registers(const InstructionTiming& instruction, OperandShape shape,
                             const VectorState& state) const {
  uint64_t bits = 0;
  switch (shape) {
    case OperandShape::None:
      return 0;
    case OperandShape::Mask:
    case OperandShape::Single:
      return 1;
    case OperandShape::Whole:
      return instruction.fields;
    case OperandShape::Group:
      bits = uint64_t{state.vl} * state.sew_bits;
      break;
    case OperandShape::Wide:
      bits = uint64_t{state.vl} * state.sew_bits * 2;
      break;
    case OperandShape::Half:
      bits = uint64_t{state.vl} * state.sew_bits / 2;
      break;
    case OperandShape::Quarter:
      bits = uint64_t{state.vl} * state.sew_bits / 4;
      break;
    case OperandShape::Eighth:
      bits = uint64_t{state.vl} * state.sew_bits / 8;
      break;
    case OperandShape::ElementBits:
      bits = uint64_t{state.vl} * instruction.element_bits;
      break;
  }
  return static_cast<uint32_t>(std::max<uint64_t>(1, divide_up(bits, params_.vlen_bits)));
}

// Cycles during which the instruction keeps its unit.
uint64_t LaneCore::occupancy(const InstructionTiming& instruction, const VectorState& state,
                             uint64_t address) const {
  const ClassTiming& timing = classes_[static_cast<size_t>(instruction.op)];
  const bool memory = instruction.op >= OpClass::VectorLoad && instruction.op <= OpClass::VectorStoreElements;
  const OperandShape data = instruction.vector_dest.shape != OperandShape::None
                                ? instruction.vector_dest.shape
                                : instruction.vector_sources[instruction.vector_source_count - 1].shape;
  if (data == OperandShape::Whole) {
    const uint64_t bytes = uint64_t{instruction.fields} * params_.vlen_bits / 8;
    if (!memory) return divide_up(bytes * 8, params_.datapath_bits);
    return divide_up(address % params_.port_bytes + bytes, params_.port_bytes);
  }
  if (timing.elements_per_cycle) {
    const uint64_t elements = uint64_t{state.vl} * (memory ? instruction.fields : 1);
    return std::max<uint64_t>(1, divide_up(elements, timing.elements_per_cycle));
  }
  if (memory) {
    const uint64_t bytes = data == OperandShape::Mask ? divide_up(state.vl, 8)
                                                      : uint64_t{state.vl} * instruction.element_bits / 8;
    return std::max<uint64_t>(1, divide_up(address % params_.port_bytes + bytes, params_.port_bytes));
  }
  uint64_t bits = uint64_t{state.vl} * state.sew_bits;
  if (instruction.vector_dest.shape == OperandShape::Wide) bits *= 2;
  for (const VectorOperand& operand : instruction.vector_sources) {
    if (operand.shape == OperandShape::Wide && instruction.vector_dest.shape != OperandShape::Wide) bits *= 2;
    if (operand.shape == OperandShape::Wide) break;
  }
  if (data == OperandShape::Mask && instruction.vector_sources[0].shape == OperandShape::Mask)
    bits = state.vl;
  if (instruction.op == OpClass::VectorToScalar) bits = 1;
  uint64_t beats = std::max<uint64_t>(1, divide_up(bits, params_.datapath_bits));
  if (instruction.op == OpClass::VectorReduceOrdered)
    beats = std::max<uint64_t>(1, state.vl) * timing.latency;
  return beats * timing.cycles_per_beat;
}

// First cycle from `cycle` on in which the arrays named can take or give the rows.
uint64_t LaneCore::array_issue(const InstructionTiming& instruction, const VectorState& state,
                               uint64_t cycle) const {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!(instruction.arrays >> i & 1)) continue;
    const Array& array = arrays_[i];
    if (instruction.op == OpClass::ArrayWeights) {
      cycle = std::max(cycle, array.weights_free);
    } else if (instruction.op == OpClass::ArrayInputs) {
      // Rows waiting in the queue are those that the array, one per cycle, has not taken yet.
      const uint64_t rows = std::min<uint64_t>(state.vl, params_.array_queue_entries);
      const uint64_t start = std::max(array.inputs_free, array.weights_loaded);
      if (start + rows > cycle + params_.array_queue_entries)
        cycle = start + rows - params_.array_queue_entries;
    } else if (!array.results.empty()) {
      uint64_t rows = state.vl, taken = 0;
      for (const Array::Rows& front : array.results) {
        const uint64_t part = std::min(rows - taken, front.rows);
        // Row i of the part is popped in cycle + taken + i and ready in front.ready + i.
        if (front.ready > cycle + taken) cycle = front.ready - taken;
        taken += part;
        if (taken == rows) break;
      }
    }
  }
  return cycle;
}

// Returns the cycle in which the rows have left the vector registers or arrived there.
uint64_t LaneCore::array_commit(const InstructionTiming& instruction, const VectorState& state,
                                uint64_t cycle) {
  const uint64_t rows = state.vl;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!(instruction.arrays >> i & 1)) continue;
    Array& array = arrays_[i];
    if (instruction.op == OpClass::ArrayWeights) {
      array.weights_free = cycle + rows;
      // The shadow set takes one row per cycle and is swapped in when complete: `lanes` cycles from the first
      // push.
      array.weights_loaded =
          instruction.first_weights ? cycle + params_.lanes : std::max(array.weights_loaded, cycle + rows);
    } else if (instruction.op == OpClass::ArrayInputs) {
      const uint64_t start = std::max({cycle, array.inputs_free, array.weights_loaded});
      array.inputs_free = start + rows;
      const uint64_t ready = start + 2 * uint64_t{params_.lanes} - 1;
      array.results.push_back({ready, rows});
      last_done_ = std::max(last_done_, ready + rows - 1);
    } else {
      uint64_t left = rows;
      while (left && !array.results.empty()) {
        Array::Rows& front = array.results.front();
        const uint64_t part = std::min(left, front.rows);
        front.ready += part;
        front.rows -= part;
        left -= part;
        if (!front.rows) array.results.pop_front();
      }
    }
  }
  return cycle + rows;
}

void LaneCore::retire_vector(const InstructionTiming& instruction, const VectorState& state,
                             uint64_t address) {
  const ClassTiming& timing = classes_[static_cast<size_t>(instruction.op)];
  uint64_t cycle = std::max(earliest(), config_ready_);
  for (uint8_t reg : instruction.scalar_sources) cycle = std::max(cycle, scalar_ready_[reg]);
  const bool whole =
      instruction.vector_dest.shape == OperandShape::Whole ||
      (instruction.vector_source_count &&
       instruction.vector_sources[instruction.vector_source_count - 1].shape == OperandShape::Whole);
  if (state.vl == 0 && !whole) {  // no element: no unit, no register
    if (instruction.scalar_dest) scalar_ready_[instruction.scalar_dest] = cycle + timing.latency;
    last_done_ = std::max(last_done_, cycle + 1);
    return issue_at(cycle);
  }

  const uint64_t busy = occupancy(instruction, state, address);
  const bool blocking = instruction.op == OpClass::VectorGather || instruction.op == OpClass::VectorReduce ||
                        instruction.op == OpClass::VectorReduceOrdered;
  const bool segments = instruction.fields > 1 && !whole;
  uint64_t latency = timing.latency;
  if (instruction.op == OpClass::VectorReduce) {
    // A tree inside the datapath after the beats are folded into one.
    const uint64_t elements =
        std::min<uint64_t>(params_.datapath_bits / std::max<uint32_t>(state.sew_bits, 8), state.vl);
    latency *= static_cast<uint64_t>(std::bit_width(std::max<uint64_t>(elements, 1) - 1)) + 1;
  }

  // Register i of an operand of n registers is used in the beats [i * busy / n, (i + 1) * busy / n).
  struct Operand {
    uint32_t first, count;
    bool at_once;
  };
  auto operand = [&](const VectorOperand& op, bool data) -> Operand {
    uint32_t count = registers(instruction, op.shape, state);
    if (segments && data) {
      const float emul =
          op.shape == OperandShape::ElementBits && state.sew_bits
              ? state.lmul * static_cast<float>(instruction.element_bits) / static_cast<float>(state.sew_bits)
              : state.lmul;
      count = static_cast<uint32_t>(std::max(1.0f, emul)) * instruction.fields;
    }
    count = std::min(count, 32u - op.reg);
    return {op.reg, count, op.shape == OperandShape::Mask || op.shape == OperandShape::Single};
  };

  std::array<Operand, 4> sources{};
  for (size_t s = 0; s < instruction.vector_source_count; ++s) {
    const bool data =
        instruction.vector_dest.shape == OperandShape::None && s + 1 == instruction.vector_source_count;
    const Operand& source = sources[s] = operand(instruction.vector_sources[s], data);
    for (uint32_t i = 0; i < source.count; ++i) {
      const VectorRegister& reg = vector_[source.first + i];
      const uint64_t start = i * busy / source.count,
                     end = std::max((i + 1) * busy / source.count, start + 1);
      if (!params_.chaining || blocking || source.at_once) {
        cycle = std::max(cycle, reg.ready);
      } else {
        // Its last beat is read in cycle + end - 1; its first, written span - 1 cycles before the last, in
        // cycle + start.
        if (reg.ready + 1 > cycle + end) cycle = reg.ready + 1 - end;
        if (reg.ready + 1 > cycle + start + reg.span) cycle = reg.ready + 1 - start - reg.span;
      }
    }
  }
  Operand dest{};
  if (instruction.vector_dest.shape != OperandShape::None) {
    dest = operand(instruction.vector_dest, true);
    for (uint32_t i = 0; i < dest.count; ++i) {
      const VectorRegister& reg = vector_[dest.first + i];
      const uint64_t start = i * busy / dest.count, end = std::max((i + 1) * busy / dest.count, start + 1);
      if (reg.read > cycle + start + latency) cycle = reg.read - start - latency;  // write after read
      if (reg.ready + 1 > cycle + end - 1 + latency)
        cycle = reg.ready + 2 - end - latency;  // write after write
    }
  }
  Unit& unit = units_[timing.unit];
  if (unit.copies) {
    uint64_t* free = std::min_element(unit.free.begin(), unit.free.begin() + unit.copies);
    cycle = std::max(cycle, *free);
    *free = cycle + busy;
  }
  uint64_t done = cycle + busy - 1 + latency;
  if (instruction.arrays) {
    cycle = array_issue(instruction, state, cycle);
    done = array_commit(instruction, state, cycle);
  }

  for (size_t s = 0; s < instruction.vector_source_count; ++s) {
    const Operand& source = sources[s];
    for (uint32_t i = 0; i < source.count; ++i) {
      const uint64_t end = std::max((i + 1) * busy / source.count, uint64_t{1});
      VectorRegister& reg = vector_[source.first + i];
      reg.read = std::max(reg.read, cycle + end);
    }
  }
  for (uint32_t i = 0; i < dest.count; ++i) {
    const uint64_t start = i * busy / dest.count, end = std::max((i + 1) * busy / dest.count, start + 1);
    VectorRegister& reg = vector_[dest.first + i];
    const bool whole_group = !params_.chaining || blocking || dest.at_once;
    reg.ready = whole_group ? cycle + busy - 1 + latency : cycle + end - 1 + latency;
    reg.span = whole_group ? 1 : end - start;
  }
  if (instruction.scalar_dest) scalar_ready_[instruction.scalar_dest] = done;
  last_done_ = std::max(last_done_, done);
  issue_at(cycle);
}

}  // namespace npu
