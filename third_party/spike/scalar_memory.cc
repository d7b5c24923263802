// Scalar loads and stores, and the CSR rule: a scalar register never holds one lane's value unless all lanes
// agree.
#include "engine_core.h"

namespace npu::engine {

namespace {

freg_t boxed(uint64_t bits, uint32_t bytes) {
  freg_t value;
  value.v[0] = bytes == 8 ? bits : bits | ~UINT64_C(0) << (bytes * 8);
  value.v[1] = ~UINT64_C(0);
  return value;
}

uint64_t sign_extended(uint64_t bits, uint32_t bytes) {
  const uint32_t shift = 64 - bytes * 8;
  return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
}

}  // namespace

void Core::scalar_load(const Decoded& entry) {
  insn_t insn = entry.insn;
  const uint32_t bits = entry.bits(), funct3 = bits >> 12 & 7, bytes = 1u << (funct3 & 3);
  const bool to_float = (bits & 0x7f) == 0x07;
  const uint64_t address = x(entry.rs1) + static_cast<uint64_t>(insn.i_imm());
  uint64_t value = 0;
  if (const uint8_t* constant = program.constants(address, bytes)) {
    std::memcpy(&value, constant, bytes);
  } else {
    const uint64_t offset = stack_offset(entry, address, bytes, false);
    check_in_flight(offset, bytes, false, -1);
    std::memcpy(&value, scratchpad.lane(0) + offset, bytes);
    for (uint32_t lane = 1; lane < lanes; ++lane)
      if (std::memcmp(scratchpad.lane(lane) + offset, &value, bytes) != 0)
        throw Fault(FaultKind::LanesDisagree,
                    "a scalar load from the stack finds other bytes in lane " + std::to_string(lane) +
                        " than in lane 0",
                    static_cast<int32_t>(lane), address);
  }
  if (to_float)
    state_->FPR.write(entry.rd, boxed(value, bytes));
  else
    state_->XPR.write(entry.rd, funct3 < 4 ? sign_extended(value, bytes) : value);
}

void Core::scalar_store(const Decoded& entry) {
  insn_t insn = entry.insn;
  const uint32_t bits = entry.bits(), bytes = 1u << (bits >> 12 & 3);
  const bool from_float = (bits & 0x7f) == 0x27;
  const uint64_t address = x(entry.rs1) + static_cast<uint64_t>(insn.s_imm());
  const uint64_t value = from_float ? state_->FPR[entry.rs2].v[0] : x(entry.rs2);
  const uint64_t offset = stack_offset(entry, address, bytes, true);
  check_in_flight(offset, bytes, true, -1);
  scratchpad.mark_written(offset, bytes);
  for (uint32_t lane = 0; lane < lanes; ++lane) std::memcpy(scratchpad.lane(lane) + offset, &value, bytes);
}

uint64_t Core::stack_offset(const Decoded& entry, uint64_t address, uint32_t bytes, bool store) const {
  const uint64_t offset = slice_offset(address, bytes, params.slice_bytes);
  if (offset != UINT64_MAX && address >= stack_begin_) [[likely]]
    return offset;
  const std::string what = std::string("scalar ") + (store ? "store to " : "load from ") + hex(address);
  if (entry.rs1 == 2 && address < stack_begin_)
    throw Fault(FaultKind::StackOverflow, what + " through sp lies below the stack reserve", -1, address);
  if (offset != UINT64_MAX)
    throw Fault(FaultKind::ScalarAccess, what + ": a scalar access to a tile would see one lane only", -1,
                address);
  if (program.is_text(address)) {
    if (store) throw Fault(FaultKind::ReadOnly, what + ": code is read-only", -1, address);
    throw Fault(FaultKind::ScalarAccess, what + ": code is not data", -1, address);
  }
  if (program.constants(address, 1) != nullptr) {
    if (store) throw Fault(FaultKind::ReadOnly, what + ": constants are read-only", -1, address);
    throw Fault(FaultKind::Unmapped, what + " reaches past the constants", -1, address);
  }
  if (address - kScratchpadBase < params.slice_bytes)
    throw Fault(FaultKind::OutOfSlice,
                what + " reaches past the slice of " + std::to_string(params.slice_bytes) + " bytes", -1,
                address);
  throw Fault(FaultKind::Unmapped, what + ": nothing is mapped there", -1, address);
}

void Core::check_csr(const Decoded& entry) {
  // fflags and vxsat collect over lanes; reading them after a vector instruction would let lane values steer
  // the program.
  const uint32_t number = entry.bits() >> 20;
  const bool collects =
      number == CSR_FFLAGS || number == CSR_FCSR || number == CSR_VXSAT || number == CSR_VCSR;
  const uint32_t funct3 = entry.bits() >> 12 & 7;
  const bool reads = entry.rd != 0 || (funct3 & 3) != 1;
  if (collects && reads && entry.rd != 0 && counts_[static_cast<size_t>(CountClass::Vector)] != 0)
    throw Fault(FaultKind::LanesDisagree,
                "a flag register that collects over all lanes is read after vector instructions");
}

}  // namespace npu::engine
