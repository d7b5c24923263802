// Bodies that move elements: merging under a mask, packing bits, blending shifted rows, splats. Included by
// every level.
#pragma once

#include "native/bodies.h"
#include "native/element.h"

namespace npu::engine::NPU_LEVEL {
namespace {

// Eight elements under one byte of mask.
template <typename T>
inline void merge_eight(Aliased<T>* to, const Aliased<T>* from, uint8_t mask) {
  T chosen[8], kept[8];
  __builtin_memcpy(chosen, from, sizeof chosen);
  __builtin_memcpy(kept, to, sizeof kept);
  for (unsigned i = 0; i < 8; ++i) kept[i] = (mask >> i & 1) != 0 ? chosen[i] : kept[i];
  __builtin_memcpy(to, kept, sizeof kept);
}

template <typename T>
void merge_rows(const MergeArguments& m) {
  const bool bytewise = m.first_bit % 8 == 0;
  for (size_t lane = 0; lane < m.lanes; ++lane) {
    auto* to = reinterpret_cast<Aliased<T>*>(m.to + lane * m.row_stride);
    const auto* from = reinterpret_cast<const Aliased<T>*>(m.from + lane * m.row_stride);
    if (m.mask == nullptr) {
      for (size_t i = 0; i < m.count; ++i) to[i] = from[i];
      continue;
    }
    const uint8_t* mask = m.mask + lane * m.row_stride + m.first_bit / 8;
    size_t i = 0;
    if (bytewise)
      for (; i + 8 <= m.count; i += 8) merge_eight<T>(to + i, from + i, mask[i / 8]);
    for (; i < m.count; ++i) {
      const size_t bit = m.first_bit % 8 + i;
      if ((mask[bit / 8] >> bit % 8 & 1) != 0) to[i] = from[i];
    }
  }
}

void pack_bits(uint8_t* bits, const uint8_t* bytes, size_t bits_bytes) {
  for (size_t i = 0; i < bits_bytes; ++i) {
    uint64_t eight = 0;
    __builtin_memcpy(&eight, bytes + 8 * i, 8);
    // The product gathers byte k's lowest bit in bit k of the top byte.
    bits[i] = static_cast<uint8_t>(eight * 0x0102040810204080u >> 56);
  }
}

void blend(uint8_t* to, const uint8_t* low, const uint8_t* high, const uint8_t* mask, size_t period,
           size_t bytes) {
  for (size_t start = 0; start < bytes; start += period) {
#pragma GCC ivdep
    for (size_t i = 0; i < period; ++i)
      to[start + i] = static_cast<uint8_t>((low[start + i] & mask[i]) | (high[start + i] & ~mask[i]));
  }
}

template <typename T>
void splat(uint8_t* to8, const uint8_t* from8, size_t index, size_t lanes, size_t elements) {
  auto* to = reinterpret_cast<Aliased<T>*>(to8);
  const auto* from = reinterpret_cast<const Aliased<T>*>(from8);
  for (size_t lane = 0; lane < lanes; ++lane) {
    const T value = from[lane * elements + index];
#pragma GCC ivdep
    for (size_t i = 0; i < elements; ++i) to[lane * elements + i] = value;
  }
}

void add_permute(Bodies& bodies) {
  bodies.merge = {merge_rows<uint8_t>, merge_rows<uint16_t>, merge_rows<uint32_t>, merge_rows<uint64_t>};
  bodies.pack_bits = pack_bits;
  bodies.blend = blend;
  bodies.splat = {splat<uint8_t>, splat<uint16_t>, splat<uint32_t>, splat<uint64_t>};
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
