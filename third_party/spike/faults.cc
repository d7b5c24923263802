#include "faults.h"

#include <array>

namespace npu::engine {

const char* fault_kind_name(FaultKind kind) {
  static constexpr std::array<const char*, 16> kNames = {
      "illegal-instruction", "scalar-access",      "lanes-disagree",   "out-of-slice",   "unmapped",
      "read-only",           "in-flight",          "pending-transfer", "stack-overflow", "bad-descriptor",
      "slot-bounds",         "index-out-of-range", "array-empty",      "array-overflow", "instruction-budget",
      "interrupted",
  };
  return kNames[static_cast<size_t>(kind)];
}

std::string hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + text;
}

}  // namespace npu::engine
