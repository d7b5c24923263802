// Vector instructions in the lane core's scoreboard: beats, register groups, chaining (docs/timing_model.md).
#include <algorithm>
#include <bit>

#include "lane_core.h"

namespace npu {
namespace {

uint64_t divide_up(uint64_t a, uint64_t b) { return b == 1 ? a : (a + b - 1) / b; }
uint64_t shift_up(uint64_t a, int shift) { return (a + (uint64_t{1} << shift) - 1) >> shift; }
uint32_t at_least_one(uint64_t value) { return static_cast<uint32_t>(std::max<uint64_t>(1, value)); }

// The operand that holds the data of a memory access: the destination of a load, the last source of a store.
OperandShape data_shape(const InstructionTiming& instruction) {
  if (instruction.vector_dest.shape != OperandShape::None) return instruction.vector_dest.shape;
  if (instruction.vector_source_count == 0) return OperandShape::None;
  return instruction.vector_sources[instruction.vector_source_count - 1].shape;
}

bool is_memory(OpClass op) { return op >= OpClass::VectorLoad && op <= OpClass::VectorStoreElements; }

// Whether the result's first beat depends on the source's last one.
bool needs_whole_source(OpClass op) {
  return op == OpClass::VectorGather || op == OpClass::VectorReduce || op == OpClass::VectorReduceOrdered;
}

}  // namespace

LaneCore::Use LaneCore::use_of(const InstructionTiming& instruction, const VectorOperand& operand,
                               const VectorState& state, uint32_t busy, bool data) const {
  Use use;
  use.first = operand.reg;
  use.count = touched_registers(instruction, operand.shape, state, vlen_shift_);
  if (data && instruction.fields > 1 &&
      operand.shape != OperandShape::Whole) {  // segments: a group per field
    float emul = state.lmul;
    if (operand.shape == OperandShape::ElementBits && state.sew_bits) {
      emul *= static_cast<float>(instruction.element_bits) / static_cast<float>(state.sew_bits);
    }
    use.count = static_cast<uint32_t>(std::max(1.0f, emul)) * instruction.fields;
  }
  use.count =
      std::min(use.count, 32u - operand.reg);  // the engine refuses groups that leave the register file
  use.step = use.count == 1 ? busy : busy / use.count;
  use.rest = busy - use.step * use.count;
  use.at_once = operand.shape == OperandShape::Mask || operand.shape == OperandShape::Single;
  return use;
}

uint64_t LaneCore::memory_bytes(const InstructionTiming& instruction, const VectorState& state) const {
  const OperandShape shape = data_shape(instruction);
  if (shape == OperandShape::Whole) return uint64_t{instruction.fields} * params_.vlen_bits / 8;
  if (shape == OperandShape::Mask) return (uint64_t{state.vl} + 7) / 8;
  const uint64_t element_bits = shape == OperandShape::Group ? state.sew_bits : instruction.element_bits;
  return state.vl * instruction.fields * element_bits / 8;
}

uint32_t LaneCore::memory_cycles(const InstructionTiming& instruction, const VectorState& state,
                                 uint64_t address) const {
  const uint64_t bytes = memory_bytes(instruction, state);
  return at_least_one(shift_up((address & (params_.port_bytes - 1)) + bytes, port_shift_));
}

// Cycles during which the instruction keeps its unit.
uint32_t LaneCore::occupancy(const InstructionTiming& instruction, const VectorState& state,
                             uint64_t address) const {
  const ClassTiming& timing = classes_[static_cast<size_t>(instruction.op)];
  if (timing.elements_per_cycle) {
    const uint64_t fields = is_memory(instruction.op) ? instruction.fields : 1;
    return at_least_one(divide_up(state.vl * fields, timing.elements_per_cycle));
  }
  if (is_memory(instruction.op)) return memory_cycles(instruction, state, address);
  uint64_t bits = uint64_t{state.vl} * state.sew_bits;
  const OperandShape first = instruction.vector_sources[0].shape, dest = instruction.vector_dest.shape;
  const bool wide =
      std::any_of(instruction.vector_sources.begin(), instruction.vector_sources.end(),
                  [](const VectorOperand& source) { return source.shape == OperandShape::Wide; });
  if (wide || dest == OperandShape::Wide) bits *= 2;
  if (dest == OperandShape::Whole) bits = uint64_t{instruction.fields} * params_.vlen_bits;
  if (dest == OperandShape::Mask && first == OperandShape::Mask) bits = state.vl;
  if (instruction.op == OpClass::VectorToScalar) bits = 1;
  if (instruction.op == OpClass::VectorReduceOrdered)
    return at_least_one(uint64_t{state.vl} * timing.latency);
  return at_least_one(shift_up(bits, datapath_shift_)) * timing.cycles_per_beat;
}

// From the last beat to the result.
uint32_t LaneCore::result_latency(const InstructionTiming& instruction, const VectorState& state) const {
  const uint32_t latency = classes_[static_cast<size_t>(instruction.op)].latency;
  if (instruction.op != OpClass::VectorReduce) return latency;
  // A tree inside the datapath after the beats are folded into one.
  const uint32_t elements = std::min(params_.datapath_bits / std::max<uint32_t>(state.sew_bits, 8), state.vl);
  return latency * (static_cast<uint32_t>(std::bit_width(std::max(elements, 1u) - 1)) + 1);
}

// First cycle from `cycle` on in which the instruction finds its source.
uint64_t LaneCore::after_source(const Use& use, bool chained, uint64_t cycle) const {
  for (uint32_t i = 0; i < use.count; ++i) {
    const VectorRegister& reg = vector_[use.first + i];
    if (reg.ready <= cycle) continue;
    if (!chained || use.at_once) {
      cycle = reg.ready;
      continue;
    }
    // Its last beat is read in cycle + end - 1; its first, ready span - 1 cycles before the last, in cycle +
    // start.
    const uint64_t start = use.start(i), end = use.end(i);
    if (reg.ready + 1 > cycle + end) cycle = reg.ready + 1 - end;
    if (reg.ready + 1 > cycle + start + reg.span) cycle = reg.ready + 1 - start - reg.span;
  }
  return cycle;
}

// First cycle from `cycle` on in which it writes its destination after all earlier reads and writes.
uint64_t LaneCore::after_dest(const Use& use, uint32_t latency, uint64_t cycle) const {
  for (uint32_t i = 0; i < use.count; ++i) {
    const VectorRegister& reg = vector_[use.first + i];
    if (reg.read <= cycle && reg.ready <= cycle) continue;
    const uint64_t start = use.start(i), end = use.end(i);
    if (reg.read > cycle + start + latency) cycle = reg.read - start - latency;
    if (reg.ready + 1 > cycle + end - 1 + latency) cycle = reg.ready + 2 - end - latency;
  }
  return cycle;
}

// vl = 0: no unit, no register.
void LaneCore::retire_empty(const InstructionTiming& instruction, const Waits& waits) {
  const uint64_t cycle = waits.unit;
  const uint64_t done = cycle + classes_[static_cast<size_t>(instruction.op)].latency;
  if (instruction.scalar_dest) scalar_ready_[instruction.scalar_dest] = done;
  last_done_ = std::max(last_done_, instruction.scalar_dest ? done : cycle + 1);
  issue_at(cycle, waits);
}

void LaneCore::retire_vector(const InstructionTiming& instruction, const VectorState& state,
                             uint64_t address) {
  uint64_t cycle = std::max(earliest(), config_ready_);
  for (uint8_t reg : instruction.scalar_sources) cycle = std::max(cycle, scalar_ready_[reg]);
  if (state.vl == 0 && data_shape(instruction) != OperandShape::Whole)
    return retire_empty(instruction, {cycle, cycle, cycle});
  Waits waits{cycle, cycle, cycle};

  const uint32_t busy = occupancy(instruction, state, address);
  const uint32_t latency = result_latency(instruction, state);
  const bool chained = params_.chaining && !needs_whole_source(instruction.op);
  const bool store = instruction.vector_dest.shape == OperandShape::None;

  std::array<Use, 4> sources;
  for (size_t s = 0; s < instruction.vector_source_count; ++s) {
    const bool data = store && s + 1u == instruction.vector_source_count;
    sources[s] = use_of(instruction, instruction.vector_sources[s], state, busy, data);
    cycle = after_source(sources[s], chained, cycle);
  }
  Use dest;
  if (!store) {
    dest = use_of(instruction, instruction.vector_dest, state, busy, true);
    cycle = after_dest(dest, latency, cycle);
  }
  waits.vector = cycle;
  waits.unit = cycle = take_unit(classes_[static_cast<size_t>(instruction.op)], cycle, busy);
  uint64_t done = cycle + busy - 1 + latency;
  if (instruction.arrays) {
    cycle = array_issue(instruction, state, cycle);
    done = array_commit(instruction, state, cycle);
  }

  for (size_t s = 0; s < instruction.vector_source_count; ++s) {
    const Use& use = sources[s];
    for (uint32_t i = 0; i < use.count; ++i) {
      VectorRegister& reg = vector_[use.first + i];
      reg.read = std::max(reg.read, cycle + use.end(i));
    }
  }
  for (uint32_t i = 0; i < dest.count; ++i) {
    VectorRegister& reg = vector_[dest.first + i];
    const bool at_once = !chained || dest.at_once;
    reg.ready = at_once ? cycle + busy - 1 + latency : cycle + dest.end(i) - 1 + latency;
    reg.span = at_once ? 1 : dest.end(i) - dest.start(i);
  }
  if (instruction.scalar_dest) scalar_ready_[instruction.scalar_dest] = done;
  last_done_ = std::max(last_done_, done);
  issue_at(cycle, waits);
}

}  // namespace npu
