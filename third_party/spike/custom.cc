// The custom instructions on the vector side: SFU, XLU, lane numbers. Arrays: custom_arrays.cc.
#include "engine_core.h"

namespace npu::engine {

void Core::custom(const Decoded& entry, uint64_t pc) {
  switch (entry.custom->instruction) {
    case Custom::DmaStart:
      return dma_start(entry, pc);
    case Custom::DmaWait:
      return dma_wait(entry);
    case Custom::DmaSet:
      return dma_set(entry);
    case Custom::XluExchange:
      return exchange_lanes(entry);
    case Custom::LaneId:
      return lane_numbers(entry);
    case Custom::ArrayPushWeights:
    case Custom::ArrayPushInputs:
      return push_to_array(entry);
    case Custom::ArrayPop:
      return pop_from_array(entry);
    default:
      return special_function(entry);
  }
}

void Core::require_vector_operands(const Decoded& entry, bool writes_vd, bool reads_vs2) const {
  if (vill_)
    throw Fault(FaultKind::IllegalInstruction, std::string(entry.custom->name) + ": vtype is not set (vill)");
  const auto aligned = [&](uint32_t number) { return number % group_registers_ == 0; };
  if ((writes_vd && !aligned(entry.rd)) || (reads_vs2 && !aligned(entry.rs2)))
    throw Fault(FaultKind::IllegalInstruction, std::string(entry.custom->name) +
                                                   ": a register is not aligned to its group of " +
                                                   std::to_string(group_registers_));
}

void Core::special_function(const Decoded& entry) {
  require_vector_operands(entry, true, true);
  if (sew_bytes_ != 4)
    throw Fault(FaultKind::IllegalInstruction,
                std::string(entry.custom->name) + " works on SEW 32 only, not " +
                    std::to_string(sew_bytes_ * 8) + "; widen to float32 first");
  const auto function = static_cast<SfuFunction>(entry.custom->sfu);
  for_each_register([&](uint32_t index, uint32_t bytes) {
    const size_t count = bytes / 4;
    if (bytes == vreg_bytes)  // full registers of neighbouring lanes are neighbours
      return bodies_->special_function(function, reinterpret_cast<const float*>(vreg(entry.rs2 + index, 0)),
                                       count * lanes, reinterpret_cast<float*>(vreg(entry.rd + index, 0)));
    for (uint32_t lane = 0; lane < lanes; ++lane)
      bodies_->special_function(function, reinterpret_cast<const float*>(vreg(entry.rs2 + index, lane)),
                                count, reinterpret_cast<float*>(vreg(entry.rd + index, lane)));
  });
}

void Core::exchange_lanes(const Decoded& entry) {
  require_vector_operands(entry, true, true);
  const uint32_t distance = 1u << (entry.rs1 - 1);
  if (distance >= lanes)
    throw Fault(FaultKind::IllegalInstruction, "xlu.exchange over a distance of " + std::to_string(distance) +
                                                   " lanes, the core has " + std::to_string(lanes));
  const auto exchange = [&](uint32_t index, auto bytes) {
    std::array<uint8_t, kMaxVregBytes> kept;
    const uint8_t* from = vreg(entry.rs2 + index, 0);
    uint8_t* to = vreg(entry.rd + index, 0);
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if ((lane & distance) != 0) continue;
      const size_t low = size_t{lane} * vreg_bytes, high = size_t{lane ^ distance} * vreg_bytes;
      std::memcpy(kept.data(), from + low, bytes);
      std::memmove(to + low, from + high, bytes);
      std::memcpy(to + high, kept.data(), bytes);
    }
  };
  for_each_register([&](uint32_t index, uint32_t bytes) {
    if (bytes == 32)
      exchange(index, std::integral_constant<size_t, 32>{});
    else
      exchange(index, static_cast<size_t>(bytes));
  });
}

void Core::lane_numbers(const Decoded& entry) {
  require_vector_operands(entry, true, false);
  for_each_register([&](uint32_t index, uint32_t bytes) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      const uint64_t number = lane;
      for (uint32_t at = 0; at < bytes; at += sew_bytes_)
        std::memcpy(vreg(entry.rd + index, lane) + at, &number, sew_bytes_);
    }
  });
}

}  // namespace npu::engine
