// Bodies that change the element width. Included by every level.
#pragma once

#include "native/bodies.h"
#include "native/element.h"
#include "native/half.h"

namespace npu::engine::NPU_LEVEL {
namespace {

// A known count becomes whole vectors: the elements of one 32-byte register.
template <size_t kCount, typename To, typename From, typename Convert>
inline void convert_counted(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride,
                            size_t lanes, Convert convert) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    From in[kCount];
    To out[kCount];
    __builtin_memcpy(in, from + lane * from_stride * sizeof(From), sizeof in);
    for (size_t i = 0; i < kCount; ++i) out[i] = convert(in[i]);
    __builtin_memcpy(to + lane * to_stride * sizeof(To), out, sizeof out);
  }
}

template <typename To, typename From, typename Convert>
inline void convert_lanes(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride,
                          size_t lanes, size_t count, Convert convert) {
  if (count == 8) return convert_counted<8, To, From>(to, to_stride, from, from_stride, lanes, convert);
  if (count == 4) return convert_counted<4, To, From>(to, to_stride, from, from_stride, lanes, convert);
  if (count == 16) return convert_counted<16, To, From>(to, to_stride, from, from_stride, lanes, convert);
  for (size_t lane = 0; lane < lanes; ++lane)
    for (size_t i = 0; i < count; ++i)
      convert_counted<1, To, From>(to + (lane * to_stride + i) * sizeof(To), 0,
                                   from + (lane * from_stride + i) * sizeof(From), 0, 1, convert);
}

template <typename To, typename From>
void extend(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
            size_t count) {
  convert_lanes<To, From>(to, to_stride, from, from_stride, lanes, count,
                          [](From value) { return static_cast<To>(value); });
}

void widen_half(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
                size_t count) {
  for (size_t lane = 0; lane < lanes; ++lane)
    halves_to_floats(from + lane * from_stride * 2, reinterpret_cast<float*>(to + lane * to_stride * 4),
                     count);
}

void narrow_to_half(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
                    size_t count) {
  for (size_t lane = 0; lane < lanes; ++lane)
    floats_to_halves(reinterpret_cast<const float*>(from + lane * from_stride * 4), to + lane * to_stride * 2,
                     count);
}

void widen_float(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
                 size_t count) {
  convert_lanes<double, float>(to, to_stride, from, from_stride, lanes, count,
                               [](float value) { return canonical(static_cast<double>(value)); });
}

void narrow_to_float(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
                     size_t count) {
  convert_lanes<float, double>(to, to_stride, from, from_stride, lanes, count,
                               [](double value) { return canonical(static_cast<float>(value)); });
}

void widen_bfloat(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
                  size_t count) {
  convert_lanes<float, uint16_t>(to, to_stride, from, from_stride, lanes, count, bfloat_to_float);
}

void narrow_to_bfloat(uint8_t* to, size_t to_stride, const uint8_t* from, size_t from_stride, size_t lanes,
                      size_t count) {
  convert_lanes<uint16_t, float>(to, to_stride, from, from_stride, lanes, count, float_to_bfloat);
}

void add_convert(Bodies& bodies) {
  const auto set = [&](Conversion conversion, size_t width, ConvertBody body) {
    bodies.convert[static_cast<size_t>(conversion)][width] = body;
  };
  set(Conversion::ZextHalf, 1, extend<uint16_t, uint8_t>);
  set(Conversion::ZextHalf, 2, extend<uint32_t, uint16_t>);
  set(Conversion::ZextHalf, 3, extend<uint64_t, uint32_t>);
  set(Conversion::SextHalf, 1, extend<int16_t, int8_t>);
  set(Conversion::SextHalf, 2, extend<int32_t, int16_t>);
  set(Conversion::SextHalf, 3, extend<int64_t, int32_t>);
  set(Conversion::ZextQuarter, 2, extend<uint32_t, uint8_t>);
  set(Conversion::ZextQuarter, 3, extend<uint64_t, uint16_t>);
  set(Conversion::SextQuarter, 2, extend<int32_t, int8_t>);
  set(Conversion::SextQuarter, 3, extend<int64_t, int16_t>);
  set(Conversion::ZextEighth, 3, extend<uint64_t, uint8_t>);
  set(Conversion::SextEighth, 3, extend<int64_t, int8_t>);
  set(Conversion::FloatWiden, 1, widen_half);
  set(Conversion::FloatWiden, 2, widen_float);
  set(Conversion::BfloatWiden, 1, widen_bfloat);
  set(Conversion::FloatNarrow, 1, narrow_to_half);
  set(Conversion::FloatNarrow, 2, narrow_to_float);
  set(Conversion::BfloatNarrow, 1, narrow_to_bfloat);
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
