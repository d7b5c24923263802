// The custom instructions on the vector side: SFU, XLU, lane numbers, systolic arrays.
#include "element_types.h"
#include "engine_core.h"

namespace npu::engine {

namespace {

// One element of a narrow type as the word the arrays work on.
uint32_t widen_element(Dtype dtype, const uint8_t* bytes) {
  uint16_t half = 0;
  uint32_t word = 0;
  switch (dtype) {
    case Dtype::Float16:
      std::memcpy(&half, bytes, 2);
      return std::bit_cast<uint32_t>(half_to_float(half));
    case Dtype::Bfloat16:
      std::memcpy(&half, bytes, 2);
      return std::bit_cast<uint32_t>(bfloat_to_float(half));
    case Dtype::Float8E4m3fn:
      return std::bit_cast<uint32_t>(fp8_e4m3fn_to_float(*bytes));
    case Dtype::Float8E5m2:
      return std::bit_cast<uint32_t>(fp8_e5m2_to_float(*bytes));
    case Dtype::Int8:
      return static_cast<uint32_t>(static_cast<int8_t>(*bytes));
    case Dtype::Uint8:
      return *bytes;
    default:
      std::memcpy(&word, bytes, 4);
      return word;
  }
}

void narrow_element(Dtype dtype, uint32_t word, uint8_t* bytes) {
  const float value = std::bit_cast<float>(word);
  uint16_t half = 0;
  switch (dtype) {
    case Dtype::Float16:
      half = float_to_half(value);
      std::memcpy(bytes, &half, 2);
      return;
    case Dtype::Bfloat16:
      half = float_to_bfloat(value);
      std::memcpy(bytes, &half, 2);
      return;
    case Dtype::Float8E4m3fn:
      *bytes = float_to_fp8_e4m3fn(value);
      return;
    case Dtype::Float8E5m2:
      *bytes = float_to_fp8_e5m2(value);
      return;
    default:
      std::memcpy(bytes, &word, 4);
  }
}

bool array_operand(Dtype dtype) {
  return dtype == Dtype::Float32 || dtype == Dtype::Float16 || dtype == Dtype::Bfloat16 ||
         dtype == Dtype::Float8E4m3fn || dtype == Dtype::Float8E5m2 || dtype == Dtype::Int8 ||
         dtype == Dtype::Uint8;
}

bool array_result(Dtype dtype) { return dtype == Dtype::Int32 || (array_operand(dtype) && is_float(dtype)); }

}  // namespace

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

// body(register offset in the group, byte offset in the register, bytes): the parts of the vl elements.
template <typename Body>
void Core::for_each_register(Body body) const {
  const uint32_t bytes = vl_ * sew_bytes_;
  for (uint32_t done = 0; done < bytes; done += vreg_bytes)
    body(done / vreg_bytes, std::min(vreg_bytes, bytes - done));
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
  std::array<uint8_t, 2 * kMaxVregBytes> pair;
  for_each_register([&](uint32_t index, uint32_t bytes) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if ((lane & distance) != 0) continue;
      std::memcpy(pair.data(), vreg(entry.rs2 + index, lane), bytes);
      std::memcpy(pair.data() + kMaxVregBytes, vreg(entry.rs2 + index, lane ^ distance), bytes);
      std::memcpy(vreg(entry.rd + index, lane), pair.data() + kMaxVregBytes, bytes);
      std::memcpy(vreg(entry.rd + index, lane ^ distance), pair.data(), bytes);
    }
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

Dtype Core::array_dtype(const Decoded& entry, bool result) const {
  const uint32_t code = entry.rs1;
  const bool known = code < std::size(kDtypes);
  const auto dtype = static_cast<Dtype>(code);
  if (!known || !(result ? array_result(dtype) : array_operand(dtype)))
    throw Fault(FaultKind::IllegalInstruction, std::string(entry.custom->name) +
                                                   " cannot have element type " +
                                                   (known ? kDtypes[code].name : std::to_string(code)));
  if (kDtypes[code].bytes != sew_bytes_)
    throw Fault(FaultKind::IllegalInstruction, std::string(entry.custom->name) + " of " + kDtypes[code].name +
                                                   " needs SEW " + std::to_string(kDtypes[code].bytes * 8) +
                                                   ", not " + std::to_string(sew_bytes_ * 8));
  return dtype;
}

void Core::push_to_array(const Decoded& entry) {
  require_vector_operands(entry, false, true);
  const Dtype dtype = array_dtype(entry, false);
  const bool weights = entry.custom->instruction == Custom::ArrayPushWeights;
  const uint32_t mask = weights ? 1u << (entry.rd & 15) : entry.rd;
  if (mask == 0 || mask >> arrays.count() != 0)
    throw Fault(FaultKind::IllegalInstruction, std::string(entry.custom->name) +
                                                   " names an array that does not exist: there are " +
                                                   std::to_string(arrays.count()));
  array_words_.resize(size_t{vl_} * lanes);
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < vl_; ++i) {
      const uint32_t at = i * sew_bytes_;
      array_words_[size_t{i} * lanes + lane] =
          widen_element(dtype, vreg(entry.rs2 + at / vreg_bytes, lane) + at % vreg_bytes);
    }
  for (uint32_t array = 0; array < arrays.count(); ++array) {
    if ((mask >> array & 1) == 0) continue;
    if (weights)
      arrays.push_weights(array, (entry.rd & 16) != 0, !is_float(dtype), vl_, array_words_.data());
    else
      arrays.push_inputs(array, !is_float(dtype), vl_, array_words_.data());
  }
}

void Core::pop_from_array(const Decoded& entry) {
  require_vector_operands(entry, true, false);
  const Dtype dtype = array_dtype(entry, true);
  if (entry.rs2 >= arrays.count())
    throw Fault(FaultKind::IllegalInstruction, "array.pop names array " + std::to_string(entry.rs2) +
                                                   ", there are " + std::to_string(arrays.count()));
  array_words_.resize(size_t{vl_} * lanes);
  arrays.pop(entry.rs2, !is_float(dtype), vl_, array_words_.data());
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < vl_; ++i) {
      const uint32_t at = i * sew_bytes_;
      narrow_element(dtype, array_words_[size_t{i} * lanes + lane],
                     vreg(entry.rd + at / vreg_bytes, lane) + at % vreg_bytes);
    }
}

}  // namespace npu::engine
