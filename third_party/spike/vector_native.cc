// Vector arithmetic by all-lane bodies. Each function does the whole instruction or, where something is out
// of the ordinary (illegal operands, vstart, another rounding mode), nothing: then Spike's handler decides.
#include <algorithm>
#include <bit>

#include "engine_core.h"

namespace npu::engine {

namespace {

bool overlap(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size) {
  return a < b + b_size && b < a + a_size;
}

}  // namespace

bool Core::run_native(const Decoded& entry) {
  const NativeInstruction& native = entry.native;
  if (native.kind == NativeKind::None || processor_->VU.vstart->read() != 0) return false;
  if (native.kind == NativeKind::MoveRegisters) return move_registers(entry);
  if (vill_ || (native.floating && !round_to_nearest_)) return false;
  switch (native.kind) {
    case NativeKind::Elementwise:
      return native_elementwise(entry);
    case NativeKind::Compare:
      return native_compare(entry);
    case NativeKind::Merge:
      return native_merge(entry);
    case NativeKind::MaskLogic:
      return native_mask_logic(entry);
    case NativeKind::Widen:
    case NativeKind::Extend:
      return native_widen(entry);
    case NativeKind::Narrow:
      return native_narrow(entry);
    case NativeKind::SlideUp:
    case NativeKind::SlideDown:
      return native_slide(entry);
    case NativeKind::Splat:
      return native_splat(entry);
    case NativeKind::Identity:
      return native_identity(entry);
    default:
      return false;
  }
}

bool Core::aligned_group(uint32_t number) const { return number % group_registers_ == 0; }

// The scalar operand of a .vx, .vi or .vf form, as bits of which a body takes the lowest.
uint64_t Core::scalar_operand(const Decoded& entry) const {
  switch (entry.native.operand) {
    case ScalarOperand::Integer:
      return x(entry.rs1);
    case ScalarOperand::Immediate:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(entry.rs1 << 3)) >> 3);
    case ScalarOperand::UnsignedImmediate:
      return entry.rs1;
    default: {
      // A narrow float that is not NaN-boxed reads as the canonical NaN.
      const freg_t& value = state_->FPR[entry.rs1];
      const bool boxed64 = value.v[1] == ~UINT64_C(0);
      if (sew_bytes_ == 8) return boxed64 ? value.v[0] : UINT64_C(0x7ff8000000000000);
      if (sew_bytes_ == 4)
        return boxed64 && value.v[0] >> 32 == 0xffffffff ? value.v[0] & 0xffffffff : 0x7fc00000;
      return boxed64 && value.v[0] >> 16 == 0xffffffffffff ? value.v[0] & 0xffff : 0x7e00;
    }
  }
}

void Core::merge_row(uint8_t* to, const uint8_t* from, bool masked, uint32_t first_element, uint32_t count) {
  bodies_->merge[std::countr_zero(sew_bytes_)](
      {to, from, masked ? vreg(0, 0) : nullptr, lanes, vreg_bytes, first_element, count});
}

bool Core::native_elementwise(const Decoded& entry) {
  const NativeInstruction& native = entry.native;
  const size_t width = std::countr_zero(sew_bytes_), op = static_cast<size_t>(native.op);
  const bool vector = native.operand == ScalarOperand::Vector || native.operand == ScalarOperand::None;
  const BinaryBody vector_body = bodies_->vector[op][width];
  const ScalarBody scalar_body = bodies_->scalar[op][width];
  if (vector ? vector_body == nullptr : scalar_body == nullptr) return false;
  const bool masked = entry.masked();
  const bool two_sources = native.operand == ScalarOperand::Vector;
  if (!aligned_group(entry.rd) || (masked && entry.rd == 0)) return false;
  if (native.op != Op::Move && !aligned_group(entry.rs2)) return false;
  if (two_sources && !aligned_group(entry.rs1)) return false;
  if (native.floating && sew_bytes_ == 1) return false;
  const uint64_t scalar = vector ? 0 : scalar_operand(entry);
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  const size_t elements = size_t{lanes} * per_register;
  for (uint32_t index = 0; index * per_register < vl_; ++index) {
    const uint32_t count = std::min(per_register, vl_ - index * per_register);
    const bool direct = count == per_register && !masked;
    uint8_t* to = vreg(entry.rd + index, 0);
    uint8_t* out = direct ? to : row_.data();
    if (!direct && native.reads_destination) std::memcpy(out, to, size_t{lanes} * vreg_bytes);
    const uint8_t* second = native.op == Op::Move ? to : vreg(entry.rs2 + index, 0);
    if (vector)
      vector_body(out, second, two_sources ? vreg(entry.rs1 + index, 0) : nullptr, elements);
    else
      scalar_body(out, second, scalar, elements);
    if (!direct) merge_row(to, out, masked, index * per_register, count);
  }
  return true;
}

bool Core::native_compare(const Decoded& entry) {
  const NativeInstruction& native = entry.native;
  const size_t width = std::countr_zero(sew_bytes_), op = static_cast<size_t>(native.op);
  const bool vector = native.operand == ScalarOperand::Vector;
  const BinaryBody vector_body = bodies_->vector[op][width];
  const ScalarBody scalar_body = bodies_->scalar[op][width];
  if (vector ? vector_body == nullptr : scalar_body == nullptr) return false;
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  if (per_register % 8 != 0 && per_register != 4 && per_register != 2) return false;
  if (!aligned_group(entry.rs2) || (vector && !aligned_group(entry.rs1))) return false;
  // The mask may replace the lowest register of a source; other overlaps are Spike's business.
  if (group_registers_ > 1 && (overlap(entry.rd, 1, entry.rs2, group_registers_) ||
                               (vector && overlap(entry.rd, 1, entry.rs1, group_registers_))))
    return false;
  const uint64_t scalar = vector ? 0 : scalar_operand(entry);
  const size_t elements = size_t{lanes} * per_register;
  const uint32_t bits_bytes = (vl_ + 7) / 8;
  if (elements % 8 != 0) return false;
  for (uint32_t index = 0; index * per_register < vl_; ++index) {
    if (vector)
      vector_body(packed_.data(), vreg(entry.rs2 + index, 0), vreg(entry.rs1 + index, 0), elements);
    else
      scalar_body(packed_.data(), vreg(entry.rs2 + index, 0), scalar, elements);
    place_bits(index * per_register, per_register);
  }
  write_mask(entry, bits_bytes);
  return true;
}

// The lanes' bits of one register, packed, into bits_ (vreg_bytes per lane), from element `first` on.
void Core::place_bits(uint32_t first, uint32_t per_register) {
  if (per_register == 8) {
    for (uint32_t lane = 0; lane < lanes; ++lane) bits_[lane * vreg_bytes + first / 8] = packed_[lane];
    return;
  }
  if (per_register % 8 == 0) {
    const uint32_t bytes = per_register / 8;
    for (uint32_t lane = 0; lane < lanes; ++lane)
      std::memcpy(&bits_[lane * vreg_bytes + first / 8], &packed_[lane * bytes], bytes);
    return;
  }
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const uint32_t at = lane * per_register;
    const uint32_t bits = packed_[at / 8] >> at % 8 & ((1u << per_register) - 1);
    uint8_t& byte = bits_[lane * vreg_bytes + first / 8];
    byte = static_cast<uint8_t>(first % 8 == 0 ? bits : byte | bits << first % 8);
  }
}

// The vl lowest bits of bits_ into the mask register rd; masked-off and tail bits stay.
void Core::write_mask(const Decoded& entry, uint32_t bits_bytes) {
  const bool masked = entry.masked();
  if (bits_bytes == 1 && vl_ == 8 && !masked) {
    for (uint32_t lane = 0; lane < lanes; ++lane) *vreg(entry.rd, lane) = bits_[lane * vreg_bytes];
    return;
  }
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint8_t* to = vreg(entry.rd, lane);
    const uint8_t* mask = vreg(0, lane);
    for (uint32_t i = 0; i < bits_bytes; ++i) {
      uint8_t active = i * 8 + 8 <= vl_ ? 0xff : static_cast<uint8_t>((1u << (vl_ - i * 8)) - 1);
      if (masked) active &= mask[i];
      to[i] = static_cast<uint8_t>((to[i] & ~active) | (bits_[lane * vreg_bytes + i] & active));
    }
  }
}

bool Core::native_merge(const Decoded& entry) {
  const bool vector = entry.native.operand == ScalarOperand::Vector;
  if (!aligned_group(entry.rd) || !aligned_group(entry.rs2) || (vector && !aligned_group(entry.rs1)) ||
      entry.rd == 0 || !entry.masked() || (entry.native.floating && sew_bytes_ == 1))
    return false;
  const size_t width = std::countr_zero(sew_bytes_), row_bytes = size_t{lanes} * vreg_bytes;
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  if (!vector)
    bodies_->scalar[static_cast<size_t>(Op::Move)][width](row_.data(), row_.data(), scalar_operand(entry),
                                                          size_t{lanes} * per_register);
  for (uint32_t index = 0; index * per_register < vl_; ++index) {
    const uint32_t count = std::min(per_register, vl_ - index * per_register);
    // Chosen elements first into a copy of the others, so that rd may be a source.
    std::memcpy(merged_.data(), vreg(entry.rs2 + index, 0), row_bytes);
    merge_row(merged_.data(), vector ? vreg(entry.rs1 + index, 0) : row_.data(), true, index * per_register,
              count);
    if (count == per_register)
      std::memcpy(vreg(entry.rd + index, 0), merged_.data(), row_bytes);
    else
      merge_row(vreg(entry.rd + index, 0), merged_.data(), false, 0, count);
  }
  return true;
}

bool Core::native_mask_logic(const Decoded& entry) {
  const uint32_t bytes = (vl_ + 7) / 8;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint8_t* to = vreg(entry.rd, lane);
    const uint8_t *second = vreg(entry.rs2, lane), *first = vreg(entry.rs1, lane);
    for (uint32_t i = 0; i < bytes; ++i) {
      const uint8_t a = second[i], b = first[i];
      uint32_t value = 0;
      switch (entry.native.variant) {
        case 0:
          value = a & ~b;
          break;
        case 1:
          value = a & b;
          break;
        case 2:
          value = a | b;
          break;
        case 3:
          value = a ^ b;
          break;
        case 4:
          value = a | ~b;
          break;
        case 5:
          value = ~(a & b);
          break;
        case 6:
          value = ~(a | b);
          break;
        default:
          value = ~(a ^ b);
      }
      const uint32_t active = i * 8 + 8 <= vl_ ? 0xff : (1u << (vl_ - i * 8)) - 1;
      to[i] = static_cast<uint8_t>((to[i] & ~active) | (value & active));
    }
  }
  return true;
}

bool Core::move_registers(const Decoded& entry) {
  const uint32_t count = entry.native.variant;
  if (entry.rd % count != 0 || entry.rs2 % count != 0 || vill_) return false;
  for (uint32_t index = 0; index < count; ++index)
    std::memmove(vreg(entry.rd + index, 0), vreg(entry.rs2 + index, 0), size_t{lanes} * vreg_bytes);
  return true;
}

bool Core::native_identity(const Decoded& entry) {
  const bool masked = entry.masked();
  if (!aligned_group(entry.rd) || (masked && entry.rd == 0)) return false;
  const uint32_t per_register = vreg_bytes / sew_bytes_;
  for (uint32_t index = 0; index * per_register < vl_; ++index) {
    for (uint32_t i = 0; i < per_register; ++i) {
      const uint64_t number = index * per_register + i;
      std::memcpy(row_.data() + i * sew_bytes_, &number, sew_bytes_);
    }
    for (uint32_t lane = 1; lane < lanes; ++lane)
      std::memcpy(row_.data() + lane * vreg_bytes, row_.data(), vreg_bytes);
    merge_row(vreg(entry.rd + index, 0), row_.data(), masked, index * per_register,
              std::min(per_register, vl_ - index * per_register));
  }
  return true;
}

}  // namespace npu::engine
