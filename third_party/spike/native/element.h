// Element access and exact arithmetic shared by the bodies. Included by every level.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::engine::NPU_LEVEL {
namespace {

// Rows are bytes that are read as several types.
template <typename T>
struct Alias {
  typedef T __attribute__((may_alias, aligned(1))) type;
};
template <typename T>
using Aliased = typename Alias<T>::type;

template <typename To, typename From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <typename T>
struct Bits;
template <>
struct Bits<float> {
  using Unsigned = uint32_t;
  using Signed = int32_t;
  static constexpr uint32_t kNan = 0x7fc00000;
};
template <>
struct Bits<double> {
  using Unsigned = uint64_t;
  using Signed = int64_t;
  static constexpr uint64_t kNan = 0x7ff8000000000000;
};

// RISC-V gives one NaN, x86 passes payloads on.
template <typename F>
inline F canonical(F value) {
  return value != value ? bits_as<F>(Bits<F>::kNan) : value;
}

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float root(float a) { return __builtin_sqrtf(a); }
inline double root(double a) { return __builtin_sqrt(a); }

// `yes` or `no`, both computed: a conditional expression may become a branch, and a loop with it scalar.
inline double select(bool condition, double yes, double no) {
  const uint64_t mask = condition ? ~uint64_t{0} : uint64_t{0};
  return bits_as<double>((bits_as<uint64_t>(yes) & mask) | (bits_as<uint64_t>(no) & ~mask));
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
