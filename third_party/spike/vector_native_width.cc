// Native vector instructions that change the element width or move elements within a lane.
#include <algorithm>
#include <bit>

#include "engine_core.h"

namespace npu::engine {

namespace {

bool overlap(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size) {
  return a < b + b_size && b < a + a_size;
}

}  // namespace

// Widening conversions (SEW of the source) and extensions (SEW of the result).
bool Core::native_widen(const Decoded& entry) {
  const NativeInstruction& native = entry.native;
  const bool extend = native.kind == NativeKind::Extend;
  const uint32_t factor = extend ? native.variant : 2;
  const ConvertBody body =
      bodies_->convert[static_cast<size_t>(native.conversion)][std::countr_zero(sew_bytes_)];
  if (body == nullptr || vreg_bytes != 32) return false;
  const uint32_t wide_bytes = extend ? sew_bytes_ : sew_bytes_ * 2, narrow_bytes = wide_bytes / factor;
  const float wide_lmul = extend ? lmul_ : lmul_ * 2, narrow_lmul = wide_lmul / static_cast<float>(factor);
  if (narrow_lmul < 0.125f || wide_lmul > 8) return false;
  const uint32_t wide_registers = wide_lmul < 1 ? 1 : static_cast<uint32_t>(wide_lmul);
  const uint32_t narrow_registers = narrow_lmul < 1 ? 1 : static_cast<uint32_t>(narrow_lmul);
  if (entry.rd % wide_registers != 0 || entry.rs2 % narrow_registers != 0) return false;
  const bool masked = entry.masked();
  if ((masked && entry.rd == 0) || overlap(entry.rd, wide_registers, entry.rs2, narrow_registers))
    return false;
  const uint32_t per_wide = vreg_bytes / wide_bytes, per_narrow = vreg_bytes / narrow_bytes;
  for (uint32_t index = 0; index * per_wide < vl_; ++index) {
    const uint32_t first = index * per_wide, count = std::min(per_wide, vl_ - first);
    const uint8_t* from = vreg(entry.rs2 + first / per_narrow, 0) + first % per_narrow * narrow_bytes;
    const bool direct = count == per_wide && !masked;
    uint8_t* to = vreg(entry.rd + index, 0);
    body(direct ? to : row_.data(), per_wide, from, per_narrow, lanes, per_wide);
    if (!direct)
      bodies_->merge[std::countr_zero(wide_bytes)](
          {to, row_.data(), masked ? vreg(0, 0) : nullptr, lanes, vreg_bytes, first, count});
  }
  return true;
}

// Narrowing conversions; SEW of the result. The result may overlap the lowest part of the source.
bool Core::native_narrow(const Decoded& entry) {
  const ConvertBody body =
      bodies_->convert[static_cast<size_t>(entry.native.conversion)][std::countr_zero(sew_bytes_)];
  if (body == nullptr || vreg_bytes != 32 || lmul_ > 4) return false;
  const uint32_t wide_registers = lmul_ * 2 < 1 ? 1 : static_cast<uint32_t>(lmul_ * 2);
  if (!aligned_group(entry.rd) || entry.rs2 % wide_registers != 0) return false;
  const bool masked = entry.masked();
  if ((masked && entry.rd == 0) || overlap(entry.rd, group_registers_, entry.rs2, wide_registers))
    return false;
  const uint32_t per_narrow = vreg_bytes / sew_bytes_, per_wide = per_narrow / 2;
  for (uint32_t index = 0; index * per_narrow < vl_; ++index) {
    const uint32_t first = index * per_narrow, count = std::min(per_narrow, vl_ - first);
    const bool direct = count == per_narrow && !masked;
    uint8_t* to = vreg(entry.rd + index, 0);
    uint8_t* out = direct ? to : row_.data();
    for (uint32_t half = 0; half < 2 && half * per_wide < count; ++half)
      body(out + half * per_wide * sew_bytes_, per_narrow, vreg(entry.rs2 + 2 * index + half, 0), per_wide,
           lanes, per_wide);
    if (!direct) merge_row(to, out, masked, first, count);
  }
  return true;
}

// Slides by the same number of elements in every lane: two rows, shifted by bytes and blended with a period
// of one lane.
bool Core::native_slide(const Decoded& entry) {
  const bool up = entry.native.kind == NativeKind::SlideUp;
  const bool masked = entry.masked();
  if (!aligned_group(entry.rd) || !aligned_group(entry.rs2) || (masked && entry.rd == 0)) return false;
  if (up && overlap(entry.rd, group_registers_, entry.rs2, group_registers_)) return false;
  if (lmul_ < 1 || vreg_bytes > kRowMargin) return false;
  const uint64_t elements = scalar_operand(entry);
  const uint64_t group_elements = uint64_t{group_registers_} * vreg_bytes / sew_bytes_;
  const uint64_t shift_bytes = std::min(elements, group_elements) * sew_bytes_;
  const auto whole = static_cast<uint32_t>(shift_bytes / vreg_bytes),
             part = static_cast<uint32_t>(shift_bytes % vreg_bytes);
  std::array<uint8_t, kMaxVregBytes> mask;
  for (uint32_t i = 0; i < vreg_bytes; ++i) mask[i] = (up ? i >= part : i < vreg_bytes - part) ? 0xff : 0;
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  const size_t row_bytes = size_t{lanes} * vreg_bytes;
  const auto row_or_zero = [&](uint32_t index) {
    return index < group_registers_ ? vreg(entry.rs2 + index, 0) : zero_row_.data() + kRowMargin;
  };
  for (uint32_t index = 0; index * per_register < vl_; ++index) {
    const uint32_t first = index * per_register, count = std::min(per_register, vl_ - first);
    uint8_t* to = vreg(entry.rd + index, 0);
    uint8_t* out = row_.data();
    if (up) {
      if (index < whole) continue;  // below the offset: as it was
      const uint8_t* low = vreg(entry.rs2 + index - whole, 0) - part;
      // Elements below the offset stay as they were.
      const uint8_t* high = index == whole ? to : vreg(entry.rs2 + index - whole - 1, 0) + vreg_bytes - part;
      bodies_->blend(out, low, high, mask.data(), vreg_bytes, row_bytes);
    } else {
      const uint8_t* low = row_or_zero(index + whole) + part;
      const uint8_t* high = row_or_zero(index + whole + 1) + part - vreg_bytes;
      bodies_->blend(out, low, high, mask.data(), vreg_bytes, row_bytes);
    }
    if (count == per_register && !masked)
      std::memcpy(to, out, row_bytes);
    else
      merge_row(to, out, masked, first, count);
  }
  return true;
}

bool Core::native_splat(const Decoded& entry) {
  const bool masked = entry.masked();
  if (!aligned_group(entry.rd) || !aligned_group(entry.rs2) || (masked && entry.rd == 0)) return false;
  if (overlap(entry.rd, group_registers_, entry.rs2, group_registers_)) return false;
  const uint64_t element = scalar_operand(entry);
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  const auto most = static_cast<uint64_t>(static_cast<float>(per_register) * lmul_);
  if (element < most)
    bodies_->splat[std::countr_zero(sew_bytes_)](
        row_.data(), vreg(entry.rs2 + static_cast<uint32_t>(element / per_register), 0),
        element % per_register, lanes, per_register);
  else
    std::memset(row_.data(), 0, size_t{lanes} * vreg_bytes);
  for (uint32_t index = 0; index * per_register < vl_; ++index) {
    const uint32_t first = index * per_register, count = std::min(per_register, vl_ - first);
    if (count == per_register && !masked)
      std::memcpy(vreg(entry.rd + index, 0), row_.data(), size_t{lanes} * vreg_bytes);
    else
      merge_row(vreg(entry.rd + index, 0), row_.data(), masked, first, count);
  }
  return true;
}

}  // namespace npu::engine
