// The special functions: f32 in and out, evaluated in f64 with plain additions, multiplications and
// divisions, so that every level and every machine gives the same bits. Included by every level.
#pragma once

#include "isa_generated.h"
#include "native/element.h"
#include "native/special_coefficients.h"

namespace npu::engine::NPU_LEVEL {
namespace {

constexpr double kLn2High = 0x1.62e42fefa3800p-1, kLn2Low = 0x1.ef35793c76730p-45;
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kHalfPi = 0x1.921fb54442d18p+0, kQuarterPi = 0x1.921fb54442d18p-1;
// pi/2 in parts of 33 bits: k times a part is exact for k below 2^20.
constexpr double kHalfPi1 = 0x1.921fb54400000p+0, kHalfPi2 = 0x1.0b4611a600000p-34,
                 kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// Adding this puts a small integer into the low bits of the sum, and rounds to it.
constexpr double kRounder = 0x1.8p52;

template <size_t kTerms>
inline double polynomial(const double (&coefficients)[kTerms], double x) {
  double sum = coefficients[0];
#pragma GCC unroll 32  // else the loop around it stays scalar
  for (size_t i = 1; i < kTerms; ++i) sum = sum * x + coefficients[i];
  return sum;
}

inline double magnitude(double x) { return bits_as<double>(bits_as<uint64_t>(x) & 0x7fffffffffffffff); }
inline double with_sign_of(double x, double sign) {
  return bits_as<double>(bits_as<uint64_t>(x) | (bits_as<uint64_t>(sign) & 0x8000000000000000));
}
inline double clamp(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

struct Exponential {
  double scale;  // 2^k
  double rest;   // 2^k * expm1(r)
};

// For x in [-200, 200].
inline Exponential exponential(double x) {
  const double shifted = x * kLog2E + kRounder;
  const double k = shifted - kRounder;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  const double scale = bits_as<double>((bits_as<uint64_t>(shifted) + 1023) << 52);
  return {scale, scale * (r * polynomial(kExpm1, r))};
}

inline double exp_body(double x) {
  const Exponential e = exponential(clamp(x, -150.0, 130.0));  // past that, 0 and infinity in f32
  return x != x ? x : e.scale + e.rest;
}

inline double tanh_body(double x) {
  const double a = magnitude(x);
  const Exponential e = exponential(2 * clamp(a, 0.0, 20.0));
  const double expm1 = e.rest + (e.scale - 1.0);
  const double result = with_sign_of(expm1 / (expm1 + 2.0), x);
  return x != x ? x : result;
}

inline double erf_body(double x) {
  const double a = clamp(magnitude(x), 0.0, 4.25);
  const double small = a * polynomial(kErfSmall, a * a);
  const double from_one = a < 1.0 ? 1.0 : a;
  const Exponential e = exponential(-(from_one * from_one));
  const double large = 1.0 - (e.scale + e.rest) * polynomial(kErfcScaled, 1.0 / from_one);
  const double result = with_sign_of(select(a < 1.0, small, large), x);
  return x != x ? x : result;
}

inline double log_body(double x) {
  const auto bits = bits_as<uint64_t>(x);
  // The mantissa in [sqrt(1/2), sqrt(2)).
  const uint64_t above = bits - bits_as<uint64_t>(0x1.6a09e667f3bcdp-1);
  const double exponent = bits_as<double>((above >> 52) | 0x4330000000000000) - 0x1p52;
  // Positive x: `above` is below 2^63 where x >= sqrt(1/2), else it has wrapped and counts down from 2^12.
  const double k = exponent >= 2048.0 ? exponent - 4096.0 : exponent;
  const double m = bits_as<double>(bits - (above & 0xfff0000000000000));
  const double s = (m - 1.0) / (m + 1.0);
  double result = k * kLn2High + (k * kLn2Low + 2.0 * (s * polynomial(kLog, s * s)));
  result = x == 0.0 ? -__builtin_inf() : result;
  result = x < 0.0 ? __builtin_nan("") : result;
  result = x > 0x1.fp127 * 2 ? x : result;
  return x != x ? x : result;
}

inline double atan_body(double x) {
  const double a = magnitude(x);
  const bool inverted = a > 1.0;
  double t = select(inverted, 1.0 / a, a);
  const bool shifted = t > 0.41421356237309503;
  t = select(shifted, (t - 1.0) / (t + 1.0), t);
  double result = t * polynomial(kAtan, t * t);
  result = shifted ? result + kQuarterPi : result;
  result = inverted ? kHalfPi - result : result;
  return x != x ? x : with_sign_of(result, x);
}

struct Reduced {
  double quarter;  // number of quarter turns, modulo 4 where large
  double rest;     // in [-pi/4, pi/4]
};

inline Reduced reduce_small(double x) {
  const double k = (x * kTwoOverPi + kRounder) - kRounder;
  return {k, ((x - k * kHalfPi1) - k * kHalfPi2) - k * kHalfPi3};
}

// The fraction of 2/pi.
constexpr uint64_t kTwoOverPiBits[4] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                        0xfe5163abdebbc561};

// For a float of any size from 2^20 on: x is a 24-bit integer times 2^e, and only the bits of 2/pi matter
// whose product with it is below 4.
Reduced reduce_large(float x) {
  const auto bits = bits_as<uint32_t>(x);
  const auto mantissa = static_cast<uint64_t>((bits & 0x7fffff) | 0x800000);
  const int e = static_cast<int>(bits >> 23 & 0xff) - 150;
  const int first = e >= 2 ? e - 1 : 1;  // first bit of 2/pi used, the highest one is number 1
  unsigned __int128 window = 0;          // 96 bits from there
  for (int i = 0; i < 96; ++i) {
    const int bit = first + i - 1;
    window = window << 1 | (kTwoOverPiBits[bit / 64] >> (63 - bit % 64) & 1);
  }
  const int point = first + 95 - e;  // bits of the product behind the point
  unsigned __int128 product = window * mantissa;
  const unsigned __int128 one = static_cast<unsigned __int128>(1) << point;
  const unsigned __int128 turns = (product + (one >> 1)) >> point;
  const auto fraction = static_cast<__int128>(product - (turns << point));
  double rest = static_cast<double>(fraction) * kHalfPi;
  for (int i = 0; i < point; ++i) rest *= 0.5;
  const auto quarter = static_cast<double>(static_cast<uint64_t>(turns & 3));
  return (bits >> 31) != 0 ? Reduced{-quarter, -rest} : Reduced{quarter, rest};
}

// sin(rest + (quarter + shift) * pi/2)
inline double circular(Reduced reduced, double shift) {
  const double r = reduced.rest, y = r * r;
  const double sine = r * polynomial(kSin, y), cosine = polynomial(kCos, y);
  const auto turn = bits_as<uint64_t>(reduced.quarter + shift + kRounder);
  const double value = select((turn & 1) != 0, cosine, sine);
  return bits_as<double>(bits_as<uint64_t>(value) ^ (turn & 2) << 62);
}

constexpr float kSmallAngle = 1048576.0f;

template <typename Function>
inline void apply(const float* values, size_t count, float* results, Function function) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i)
    results[i] = canonical(static_cast<float>(function(static_cast<double>(values[i]))));
}

void circular_row(const float* values, size_t count, float* results, double shift) {
  // In blocks: results may be the values, and large angles need the values again.
  constexpr size_t kBlock = 128;
  float kept[kBlock];
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t part = count - done < kBlock ? count - done : kBlock;
    for (size_t i = 0; i < part; ++i) kept[i] = values[done + i];
    apply(kept, part, results + done,
          [shift](double x) { return circular(reduce_small(clamp(x, -2e6, 2e6)), shift); });
    for (size_t i = 0; i < part; ++i) {
      const float x = kept[i];
      if (x > -kSmallAngle && x < kSmallAngle) continue;
      const bool finite = x - x == 0.0f;
      results[done + i] =
          finite ? static_cast<float>(circular(reduce_large(x), shift)) : bits_as<float>(Bits<float>::kNan);
    }
  }
}

void special_function(SfuFunction function, const float* values, size_t count, float* results) {
  switch (function) {
    case SfuFunction::Erf:
      return apply(values, count, results, erf_body);
    case SfuFunction::Tanh:
      return apply(values, count, results, tanh_body);
    case SfuFunction::Sin:
      return circular_row(values, count, results, 0.0);
    case SfuFunction::Cos:
      return circular_row(values, count, results, 1.0);
    case SfuFunction::Log:
      return apply(values, count, results, log_body);
    case SfuFunction::Atan:
      return apply(values, count, results, atan_body);
    case SfuFunction::Exp:
      return apply(values, count, results, exp_body);
  }
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
