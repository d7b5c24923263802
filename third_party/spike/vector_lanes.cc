// Vector arithmetic by Spike's own handler, once per lane. The reference for every vector instruction.
#include <riscv/encoding.h>

#include <algorithm>

#include "engine_core.h"

namespace npu::engine {

namespace {

struct Groups {
  std::array<uint8_t, 32> registers;
  uint32_t reads = 0;   // registers[0 .. reads)
  uint32_t writes = 0;  // registers[0 .. writes): the destination group comes first
};

// Registers that an instruction can touch: up to `size` from vd, vs1, vs2, and v0.
Groups touched(const Decoded& entry, uint32_t size) {
  Groups groups;
  uint32_t seen = 0;
  const auto add = [&](uint32_t first) {
    for (uint32_t number = first; number < std::min<uint32_t>(32, first + size); ++number) {
      if ((seen >> number & 1) != 0) continue;
      seen |= 1u << number;
      groups.registers[groups.reads++] = static_cast<uint8_t>(number);
    }
  };
  add(entry.rd);
  groups.writes = groups.reads;
  const uint32_t funct3 = entry.bits() >> 12 & 7;
  if (funct3 <= 2) add(entry.rs1);  // vector-vector forms
  add(entry.rs2);
  if ((seen & 1) == 0) groups.registers[groups.reads++] = 0;
  return groups;
}

}  // namespace

void Core::run_lanes(const Decoded& entry, uint64_t pc) {
  // Widening doubles LMUL and vrgatherei16 doubles it for its index; whole-register moves take up to 8
  // registers.
  const bool whole_move = (entry.bits() & 0xfe00707f) == (MATCH_VMV1R_V & 0xfe00707f);
  const uint32_t size = whole_move ? 8 : std::min<uint32_t>(8, 2 * group_registers_);
  const Groups groups = touched(entry, size);
  auto* scratch = static_cast<uint8_t*>(processor_->VU.reg_file);
  const reg_t vstart = processor_->VU.vstart->read();
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (uint32_t i = 0; i < groups.reads; ++i)
      std::memcpy(scratch + groups.registers[i] * vreg_bytes, vreg(groups.registers[i], lane), vreg_bytes);
    if (vstart != 0) processor_->VU.vstart->write_raw(vstart);
    entry.spike(processor_.get(), entry.insn, pc);
    for (uint32_t i = 0; i < groups.writes; ++i)
      std::memcpy(vreg(groups.registers[i], lane), scratch + groups.registers[i] * vreg_bytes, vreg_bytes);
  }
}

void Core::run_lanes_to_scalar(const Decoded& entry, uint64_t pc) {
  const uint32_t bits = entry.bits();
  const bool to_float = (bits & MASK_VFMV_F_S) == MATCH_VFMV_F_S;
  auto* scratch = static_cast<uint8_t*>(processor_->VU.reg_file);
  uint64_t first = 0;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (uint32_t number : {uint32_t{0}, uint32_t{entry.rs2}})
      std::memcpy(scratch + number * vreg_bytes, vreg(number, lane), vreg_bytes);
    entry.spike(processor_.get(), entry.insn, pc);
    const uint64_t value = to_float ? state_->FPR[entry.rd].v[0] : x(entry.rd);
    if (lane == 0) first = value;
    if (value != first)
      throw Fault(FaultKind::LanesDisagree,
                  "moving a vector element to a scalar register: lane " + std::to_string(lane) + " holds " +
                      hex(value) + ", lane 0 " + hex(first),
                  static_cast<int32_t>(lane));
  }
}

}  // namespace npu::engine
