// Why the machine refused an instruction. Thrown by every unit of the engine, caught at its boundary; never
// ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace npu::engine {

enum class FaultKind : uint8_t {
  IllegalInstruction,
  ScalarAccess,
  LanesDisagree,
  OutOfSlice,
  Unmapped,
  ReadOnly,
  InFlight,
  PendingTransfer,
  StackOverflow,
  BadDescriptor,
  SlotBounds,
  IndexOutOfRange,
  ArrayEmpty,
  ArrayOverflow,
  InstructionBudget,
  Interrupted,
};

// The kind's name in docs/kernel_abi.md, such as "out-of-slice".
const char* fault_kind_name(FaultKind kind);

struct Fault {
  FaultKind kind;
  std::string text;
  int32_t lane = -1;      // -1: no single lane is to blame
  uint64_t address = 0;   // kernel address, where one is involved
  uint64_t pc = 0;        // filled by the loop, unless the thrower knows better
  uint64_t other_pc = 0;  // the other instruction of an in-flight fault
  uint32_t bits = 0;
  bool located = false;  // pc and bits are set

  Fault(FaultKind fault_kind, std::string message, int32_t fault_lane = -1, uint64_t fault_address = 0)
      : kind(fault_kind), text(std::move(message)), lane(fault_lane), address(fault_address) {}
};

// "0x" and the digits.
std::string hex(uint64_t value);

}  // namespace npu::engine
