// Pushes to and pops from the systolic arrays: element types, and the way between lanes and rows.
#include "element_types.h"
#include "engine_core.h"

namespace npu::engine {

namespace {

bool array_operand(Dtype dtype) {
  return dtype == Dtype::Float32 || dtype == Dtype::Float16 || dtype == Dtype::Bfloat16 ||
         dtype == Dtype::Float8E4m3fn || dtype == Dtype::Float8E5m2 || dtype == Dtype::Int8 ||
         dtype == Dtype::Uint8;
}

bool array_result(Dtype dtype) { return dtype == Dtype::Int32 || (array_operand(dtype) && is_float(dtype)); }

}  // namespace

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
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  array_words_.resize(size_t{vl_} * lanes);
  for_each_register([&](uint32_t index, uint32_t bytes) {
    widen_row(dtype, vreg(entry.rs2 + index, 0));
    bodies_->lanes_to_rows[2](word_lanes(per_register), 0,
                              reinterpret_cast<uint8_t*>(&array_words_[size_t{index} * per_register * lanes]),
                              lanes * sizeof(uint32_t), bytes / sew_bytes_, lanes);
  });
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
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  array_words_.resize(size_t{vl_} * lanes);
  arrays.pop(entry.rs2, !is_float(dtype), vl_, array_words_.data());
  for_each_register([&](uint32_t index, uint32_t bytes) {
    const uint32_t count = bytes / sew_bytes_;
    bodies_->rows_to_lanes[2](
        word_lanes(per_register), 0,
        reinterpret_cast<const uint8_t*>(&array_words_[size_t{index} * per_register * lanes]),
        lanes * sizeof(uint32_t), count, lanes);
    narrow_row(dtype, row_.data());
    merge_row(vreg(entry.rd + index, 0), row_.data(), false, 0, count);
  });
}

// Lanes of word_row_, `per_register` words each.
uint8_t* const* Core::word_lanes(uint32_t per_register) {
  word_row_.resize(size_t{per_register} * lanes);
  word_lanes_.resize(lanes);
  for (uint32_t lane = 0; lane < lanes; ++lane)
    word_lanes_[lane] = reinterpret_cast<uint8_t*>(&word_row_[size_t{lane} * per_register]);
  return word_lanes_.data();
}

// A register of all lanes into word_row_: floats as float32, integers as int32.
void Core::widen_row(Dtype dtype, const uint8_t* row) {
  const size_t count = size_t{lanes} * vreg_bytes / kDtypes[static_cast<size_t>(dtype)].bytes;
  word_row_.resize(count);
  auto* floats = reinterpret_cast<float*>(word_row_.data());
  switch (dtype) {
    case Dtype::Float16:
      return bodies_->halves_to_floats(row, floats, count);
    case Dtype::Bfloat16:
      return bodies_->bfloats_to_floats(row, floats, count);
    case Dtype::Float8E4m3fn:
      for (size_t i = 0; i < count; ++i) floats[i] = fp8_e4m3fn_to_float(row[i]);
      return;
    case Dtype::Float8E5m2:
      for (size_t i = 0; i < count; ++i) floats[i] = fp8_e5m2_to_float(row[i]);
      return;
    case Dtype::Int8:
      for (size_t i = 0; i < count; ++i) word_row_[i] = static_cast<uint32_t>(static_cast<int8_t>(row[i]));
      return;
    case Dtype::Uint8:
      for (size_t i = 0; i < count; ++i) word_row_[i] = row[i];
      return;
    default:
      std::memcpy(word_row_.data(), row, count * sizeof(uint32_t));
  }
}

// word_row_ into a register of all lanes.
void Core::narrow_row(Dtype dtype, uint8_t* row) const {
  const size_t count = size_t{lanes} * vreg_bytes / kDtypes[static_cast<size_t>(dtype)].bytes;
  const auto* floats = reinterpret_cast<const float*>(word_row_.data());
  switch (dtype) {
    case Dtype::Float16:
      return bodies_->floats_to_halves(floats, row, count);
    case Dtype::Bfloat16:
      return bodies_->floats_to_bfloats(floats, row, count);
    case Dtype::Float8E4m3fn:
      for (size_t i = 0; i < count; ++i) row[i] = float_to_fp8_e4m3fn(floats[i]);
      return;
    case Dtype::Float8E5m2:
      for (size_t i = 0; i < count; ++i) row[i] = float_to_fp8_e5m2(floats[i]);
      return;
    default:
      std::memcpy(row, word_row_.data(), count * sizeof(uint32_t));
  }
}

}  // namespace npu::engine
