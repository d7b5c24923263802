// Instruction words to Decoded entries, once per pc. Which instructions a kernel may contain is decided here.
#include <riscv/encoding.h>

#include "engine_core.h"
#include "vector_table.h"

namespace npu::engine {

namespace {

constexpr uint32_t kOpLoad = 0x03, kOpLoadFp = 0x07, kOpMiscMem = 0x0f, kOpStore = 0x23, kOpStoreFp = 0x27,
                   kOpAmo = 0x2f;
constexpr uint32_t kOpVector = 0x57, kOpBranch = 0x63, kOpJalr = 0x67, kOpJal = 0x6f, kOpSystem = 0x73,
                   kOpVectorCrypto = 0x77;

bool is_vector_width(uint32_t funct3) { return funct3 == 0 || funct3 >= 5; }

bool allowed_csr(uint32_t number) {
  switch (number) {
    case CSR_FFLAGS:
    case CSR_FRM:
    case CSR_FCSR:
    case CSR_VSTART:
    case CSR_VXSAT:
    case CSR_VXRM:
    case CSR_VCSR:
    case CSR_VL:
    case CSR_VTYPE:
    case CSR_VLENB:
      return true;
    default:
      return false;
  }
}

VectorAccess decode_access(uint32_t bits) {
  VectorAccess access;
  const uint32_t width = bits >> 12 & 7, mop = bits >> 26 & 3, unit_form = bits >> 20 & 31;
  access.store = (bits & 0x7f) == kOpStoreFp;
  access.masked = (bits >> 25 & 1) == 0;
  access.width_bytes = static_cast<uint8_t>(width == 0 ? 1 : 2u << (width - 5));
  access.fields = static_cast<uint8_t>(1 + (bits >> 29));
  if ((bits >> 28 & 1) != 0)
    throw Fault(FaultKind::IllegalInstruction, "reserved vector memory width (mew = 1)");
  using Addressing = VectorAccess::Addressing;
  if (mop == 2) {
    access.addressing = Addressing::Strided;
  } else if (mop != 0) {
    access.addressing = Addressing::Indexed;
  } else if (unit_form == 0) {
    access.addressing = Addressing::Unit;
  } else if (unit_form == 8) {
    access.addressing = Addressing::Whole;
    const bool power = (access.fields & (access.fields - 1)) == 0;
    if (!power || access.masked || (access.store && access.width_bytes != 1))
      throw Fault(FaultKind::IllegalInstruction, "reserved whole-register access");
    if ((bits >> 7 & 31) % access.fields != 0)
      throw Fault(FaultKind::IllegalInstruction, "whole-register access to an unaligned register group");
  } else if (unit_form == 11) {
    access.addressing = Addressing::Mask;
    if (access.fields != 1 || access.masked || access.width_bytes != 1)
      throw Fault(FaultKind::IllegalInstruction, "reserved mask access");
  } else if (unit_form == 16 && !access.store) {
    throw Fault(FaultKind::IllegalInstruction,
                "fault-only-first loads set vl by what one lane finds, and vl is shared by all lanes");
  } else {
    throw Fault(FaultKind::IllegalInstruction, "reserved unit-stride access");
  }
  return access;
}

}  // namespace

Decoded& Core::decoded(uint64_t pc) {
  const uint64_t index = (pc - program.text_begin()) / 4;
  if (index < decoded_.size() && pc % 4 == 0) [[likely]] {
    Decoded& entry = decoded_[index];
    if (entry.kind == Kind::Undecoded) decode(entry, pc);
    return entry;
  }
  throw Fault(FaultKind::Unmapped, "pc " + hex(pc) + " is not in the program's code", -1, pc);
}

void Core::decode(Decoded& entry, uint64_t pc) {
  memory_.fetching = true;
  insn_fetch_t fetched;
  try {
    fetched = processor_->get_mmu()->load_insn(pc);
  } catch (trap_t&) {
    memory_.fetching = false;
    throw Fault(FaultKind::Unmapped, "pc " + hex(pc) + " cannot be fetched", -1, pc);
  }
  memory_.fetching = false;
  Decoded fresh;
  fresh.insn = fetched.insn;
  fresh.spike = fetched.func;
  fresh.rd = static_cast<uint8_t>(fetched.insn.rd());
  fresh.rs1 = static_cast<uint8_t>(fetched.insn.rs1());
  fresh.rs2 = static_cast<uint8_t>(fetched.insn.rs2());
  fresh.timing = decode_timing(fresh.bits());
  for (size_t i = 0; i < program.tile_functions().size(); ++i)
    if (program.tile_functions()[i].entry == pc) fresh.tile = static_cast<uint16_t>(i + 1);
  try {
    classify(fresh);
  } catch (Fault& fault) {
    fault.pc = pc;
    fault.bits = fresh.bits();
    fault.located = true;
    throw;
  }
  entry = fresh;
}

void Core::classify(Decoded& entry) {
  const uint32_t bits = entry.bits(), opcode = bits & 0x7f, funct3 = bits >> 12 & 7;
  const auto illegal = [](const std::string& why) { return Fault(FaultKind::IllegalInstruction, why); };
  if (opcode == 0x5b) {
    for (const CustomRow& row : kCustomRows)
      if ((bits & row.mask) == row.match) entry.custom = &row;
    if (entry.custom == nullptr) throw illegal("no custom instruction has this encoding (docs/isa.md)");
    entry.kind = Kind::Custom;
    entry.count =
        entry.custom->latency == LatencyClass::Dma ? CountClass::Dma
        : entry.custom->latency == LatencyClass::ArrayPush || entry.custom->latency == LatencyClass::ArrayPop
            ? CountClass::Array
            : CountClass::Vector;
    return;
  }
  if (entry.spike == &::illegal_instruction) throw illegal("no instruction has this encoding");
  const bool vector_access = (opcode == kOpLoadFp || opcode == kOpStoreFp) && is_vector_width(funct3);
  if (opcode == kOpVector || opcode == kOpVectorCrypto || vector_access) {
    entry.count = CountClass::Vector;
    const int row = find_vector_row(bits);
    if (row < 0) throw illegal("no vector instruction has this encoding");
    entry.row = static_cast<int16_t>(row);
    if (vector_access) {
      entry.kind = Kind::VectorMemory;
      entry.access = decode_access(bits);
    } else if (opcode == kOpVector && funct3 == 7) {
      entry.kind = Kind::VectorConfig;
    } else if ((bits & MASK_VMV_X_S) == MATCH_VMV_X_S || (bits & MASK_VFMV_F_S) == MATCH_VFMV_F_S ||
               (bits & MASK_VCPOP_M) == MATCH_VCPOP_M || (bits & MASK_VFIRST_M) == MATCH_VFIRST_M) {
      entry.kind = Kind::VectorToScalar;
    } else {
      entry.kind = Kind::VectorArithmetic;
      entry.native = native_instruction(vector_table()[static_cast<size_t>(row)].name);
    }
    return;
  }
  switch (opcode) {
    case kOpLoad:
    case kOpLoadFp:
      entry.kind = Kind::ScalarLoad;
      break;
    case kOpStore:
    case kOpStoreFp:
      entry.kind = Kind::ScalarStore;
      break;
    case kOpSystem:
      if (funct3 == 0 || funct3 == 4) throw illegal("system instructions have no meaning on this machine");
      if (!allowed_csr(bits >> 20))
        throw illegal("CSR " + hex(bits >> 20) + " cannot be accessed by kernels");
      entry.kind = Kind::Csr;
      break;
    case kOpAmo:
      throw illegal("atomic memory instructions have no meaning on this machine");
    case kOpMiscMem:
      if (funct3 != 0) throw illegal("only plain fences are allowed");
      entry.kind = Kind::Scalar;
      return;
    default:
      entry.kind = Kind::Scalar;
      entry.control = opcode == kOpBranch || opcode == kOpJal || opcode == kOpJalr;
  }
  const bool writes_integer = opcode != kOpLoadFp && opcode != kOpStore && opcode != kOpStoreFp &&
                              opcode != kOpBranch && opcode != 0x43 && opcode != 0x47 && opcode != 0x4b &&
                              opcode != 0x4f && opcode != 0x53;
  entry.writes_sp = writes_integer && entry.rd == 2;
}

}  // namespace npu::engine
