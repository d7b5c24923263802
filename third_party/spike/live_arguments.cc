#include "live_arguments.h"

#include <vector>

#include "lane_core.h"

namespace npu::engine {

namespace {

constexpr uint32_t kAllArguments = 0xffu << 10;

struct Flow {
  bool falls_through = true;
  bool leaves = false;  // return
  bool unknown = false;
  bool jumps = false;
  int64_t target = 0;  // index of a word
};

Flow flow_of(uint32_t bits, int64_t index) {
  Flow flow;
  const auto field = [bits](int low, int count) { return bits >> low & ((1u << count) - 1); };
  const auto sign = static_cast<int64_t>(static_cast<int32_t>(bits) >> 31);
  switch (bits & 0x7f) {
    case 0x63:
      flow.jumps = true;
      flow.target =
          index + (sign * 4096 + (field(7, 1) << 11) + (field(25, 6) << 5) + (field(8, 4) << 1)) / 4;
      break;
    case 0x6f:
      flow.falls_through = false;
      flow.jumps = true;
      flow.unknown = field(7, 5) != 0;
      flow.target =
          index + (sign * 1048576 + (field(12, 8) << 12) + (field(20, 1) << 11) + (field(21, 10) << 1)) / 4;
      break;
    case 0x67:
      flow.falls_through = false;
      flow.leaves = bits == 0x00008067;  // jalr x0, 0(ra)
      flow.unknown = !flow.leaves;
      break;
    default:
      break;
  }
  return flow;
}

}  // namespace

uint8_t live_arguments(std::span<const uint32_t> code) {
  const auto count = static_cast<int64_t>(code.size());
  std::vector<uint32_t> live(code.size() + 1, 0);
  live[code.size()] = kAllArguments;  // running off the end: unknown
  const auto live_at = [&](int64_t index) {
    return index < 0 || index >= count ? kAllArguments : live[static_cast<size_t>(index)];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int64_t index = count; index-- > 0;) {
      const uint32_t bits = code[static_cast<size_t>(index)];
      const InstructionTiming timing = decode_timing(bits);
      const Flow flow = flow_of(bits, index);
      uint32_t out = 0;
      if (flow.falls_through) out |= live_at(index + 1);
      if (flow.jumps) out |= live_at(flow.target);
      if (flow.unknown) out |= kAllArguments;
      if (timing.scalar_dest != 0 && timing.scalar_dest < 32) out &= ~(1u << timing.scalar_dest);
      for (const uint8_t source : timing.scalar_sources)
        if (source < 32) out |= 1u << source;
      uint32_t& slot = live[static_cast<size_t>(index)];
      if ((out | slot) != slot) {
        slot |= out;
        changed = true;
      }
    }
  }
  return count == 0 ? 0xff : static_cast<uint8_t>(live[0] >> 10 & 0xff);
}

}  // namespace npu::engine
