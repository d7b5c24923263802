// Element-wise bodies: integer, float (f32, f64), f16 by way of f32, comparisons. Included by every level.
#pragma once

#include "native/bodies.h"
#include "native/element.h"
#include "native/half.h"

namespace npu::engine::NPU_LEVEL {
namespace {

template <typename T>
struct SignedOf;
template <>
struct SignedOf<uint8_t> {
  using type = int8_t;
  using Wide = int16_t;
  using WideUnsigned = uint16_t;
};
template <>
struct SignedOf<uint16_t> {
  using type = int16_t;
  using Wide = int32_t;
  using WideUnsigned = uint32_t;
};
template <>
struct SignedOf<uint32_t> {
  using type = int32_t;
  using Wide = int64_t;
  using WideUnsigned = uint64_t;
};
template <>
struct SignedOf<uint64_t> {
  using type = int64_t;
  using Wide = __int128;
  using WideUnsigned = unsigned __int128;
};

// f(d, s2, s1) on unsigned integers of SEW; S is the signed type, kBits the width.
#define NPU_INTEGER_OP(Name, expression)                                                      \
  struct Name {                                                                               \
    template <typename T>                                                                     \
    static inline T apply([[maybe_unused]] T d, [[maybe_unused]] T a, [[maybe_unused]] T b) { \
      using S [[maybe_unused]] = typename SignedOf<T>::type;                                  \
      using Wide [[maybe_unused]] = typename SignedOf<T>::Wide;                               \
      using WideUnsigned [[maybe_unused]] = typename SignedOf<T>::WideUnsigned;               \
      [[maybe_unused]] constexpr unsigned kBits = sizeof(T) * 8;                              \
      return static_cast<T>(expression);                                                      \
    }                                                                                         \
  };

NPU_INTEGER_OP(IntAdd, a + b)
NPU_INTEGER_OP(IntSub, a - b)
NPU_INTEGER_OP(IntRsub, b - a)
NPU_INTEGER_OP(IntAnd, a& b)
NPU_INTEGER_OP(IntOr, a | b)
NPU_INTEGER_OP(IntXor, a ^ b)
NPU_INTEGER_OP(IntMinu, a < b ? a : b)
NPU_INTEGER_OP(IntMin, static_cast<S>(a) < static_cast<S>(b) ? a : b)
NPU_INTEGER_OP(IntMaxu, a > b ? a : b)
NPU_INTEGER_OP(IntMax, static_cast<S>(a) > static_cast<S>(b) ? a : b)
NPU_INTEGER_OP(IntSll, static_cast<T>(a) << (b & (kBits - 1)))
NPU_INTEGER_OP(IntSrl, a >> (b & (kBits - 1)))
NPU_INTEGER_OP(IntSra, static_cast<S>(a) >> (b & (kBits - 1)))
NPU_INTEGER_OP(IntMul, static_cast<WideUnsigned>(a) * static_cast<WideUnsigned>(b))
NPU_INTEGER_OP(IntMulh,
               (static_cast<Wide>(static_cast<S>(a)) * static_cast<Wide>(static_cast<S>(b))) >> kBits)
NPU_INTEGER_OP(IntMulhu, (static_cast<WideUnsigned>(a) * static_cast<WideUnsigned>(b)) >> kBits)
NPU_INTEGER_OP(IntDivu, b == 0 ? static_cast<T>(~T{0}) : static_cast<T>(a / (b == 0 ? 1 : b)))
NPU_INTEGER_OP(IntRemu, b == 0 ? a : static_cast<T>(a % (b == 0 ? 1 : b)))
NPU_INTEGER_OP(IntDiv, b == 0                       ? static_cast<T>(~T{0})
                       : b == static_cast<T>(~T{0}) ? static_cast<T>(T{0} - a)
                                                    : static_cast<T>(static_cast<S>(a) / static_cast<S>(b)))
NPU_INTEGER_OP(IntRem, b == 0                       ? a
                       : b == static_cast<T>(~T{0}) ? T{0}
                                                    : static_cast<T>(static_cast<S>(a) % static_cast<S>(b)))
NPU_INTEGER_OP(IntMove, b)
NPU_INTEGER_OP(IntMacc, d + static_cast<WideUnsigned>(a) * static_cast<WideUnsigned>(b))
NPU_INTEGER_OP(IntNmsac, d - static_cast<WideUnsigned>(a) * static_cast<WideUnsigned>(b))
NPU_INTEGER_OP(IntMadd, static_cast<WideUnsigned>(d) * static_cast<WideUnsigned>(b) + a)
NPU_INTEGER_OP(IntNmsub, a - static_cast<WideUnsigned>(d) * static_cast<WideUnsigned>(b))
#undef NPU_INTEGER_OP

// f(d, s2, s1) on floats; every NaN result is the canonical one.
#define NPU_FLOAT_OP(Name, expression)                                                        \
  struct Name {                                                                               \
    template <typename F>                                                                     \
    static inline F apply([[maybe_unused]] F d, [[maybe_unused]] F a, [[maybe_unused]] F b) { \
      return canonical<F>(expression);                                                        \
    }                                                                                         \
  };

NPU_FLOAT_OP(FloatAdd, a + b)
NPU_FLOAT_OP(FloatSub, a - b)
NPU_FLOAT_OP(FloatRsub, b - a)
NPU_FLOAT_OP(FloatMul, a* b)
NPU_FLOAT_OP(FloatDiv, a / b)
NPU_FLOAT_OP(FloatRdiv, b / a)
NPU_FLOAT_OP(FloatSqrt, root(a))
NPU_FLOAT_OP(FloatMacc, fused(b, a, d))
NPU_FLOAT_OP(FloatNmacc, fused(-b, a, -d))
NPU_FLOAT_OP(FloatMsac, fused(b, a, -d))
NPU_FLOAT_OP(FloatNmsac, fused(-b, a, d))
NPU_FLOAT_OP(FloatMadd, fused(d, b, a))
NPU_FLOAT_OP(FloatNmadd, fused(-d, b, -a))
NPU_FLOAT_OP(FloatMsub, fused(d, b, -a))
NPU_FLOAT_OP(FloatNmsub, fused(-d, b, a))
#undef NPU_FLOAT_OP

// A number wins over a NaN, -0 is below +0.
template <bool kMax>
struct FloatExtreme {
  template <typename F>
  static inline F apply(F, F a, F b) {
    using U = typename Bits<F>::Unsigned;
    // Masks as words: as conditions, the compiler spends more on juggling mask registers than on the work.
    const U first = (kMax ? a > b : a < b) ? ~U{0} : U{0}, no_second = b != b ? ~U{0} : U{0},
            equal = a == b ? ~U{0} : U{0};
    const U x = bits_as<U>(a), y = bits_as<U>(b), both = kMax ? x & y : x | y;
    const U chosen = (x & (first | no_second)) | (y & ~(first | no_second));
    const F result = bits_as<F>((both & equal) | (chosen & ~equal));
    return canonical(result);
  }
};

// Sign injection works on bits and keeps NaNs as they are.
template <int kForm>
struct SignInject {
  template <typename T>
  static inline T apply(T, T a, T b) {
    constexpr T kSign = static_cast<T>(T{1} << (sizeof(T) * 8 - 1));
    const T sign = static_cast<T>(kForm == 0 ? b : kForm == 1 ? ~b : a ^ b);
    return static_cast<T>((a & static_cast<T>(~kSign)) | (sign & kSign));
  }
};

template <typename F>
struct Limits;
template <>
struct Limits<float> {
  static constexpr float kSignedEnd = 2147483648.0f, kUnsignedEnd = 4294967296.0f;
};
template <>
struct Limits<double> {
  static constexpr double kSignedEnd = 9223372036854775808.0, kUnsignedEnd = 18446744073709551616.0;
};

inline float nearest(float value) { return __builtin_rintf(value); }
inline double nearest(double value) { return __builtin_rint(value); }

template <typename F, bool kTruncate>
inline typename Bits<F>::Signed to_signed(F value) {
  using S = typename Bits<F>::Signed;
  constexpr S kMax = static_cast<S>(~typename Bits<F>::Unsigned{0} >> 1);
  const F rounded = kTruncate ? value : nearest(value);
  const bool inside = rounded >= -Limits<F>::kSignedEnd && rounded < Limits<F>::kSignedEnd;
  const S converted = static_cast<S>(inside ? rounded : F{0});
  return inside ? converted : value < 0 ? static_cast<S>(-kMax - 1) : kMax;
}

template <typename F, bool kTruncate>
inline typename Bits<F>::Unsigned to_unsigned(F value) {
  using U = typename Bits<F>::Unsigned;
  const F rounded = kTruncate ? value : nearest(value);
  const bool inside = rounded > F{-1} && rounded < Limits<F>::kUnsignedEnd;
  const U converted = static_cast<U>(inside ? rounded : F{0});
  return inside ? converted : value < 0 ? U{0} : static_cast<U>(~U{0});
}

template <typename T, typename F>
void map_vector(uint8_t* d8, const uint8_t* a8, const uint8_t* b8, size_t n) {
  auto* d = reinterpret_cast<Aliased<T>*>(d8);
  const auto* a = reinterpret_cast<const Aliased<T>*>(a8);
  const auto* b = reinterpret_cast<const Aliased<T>*>(b8);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) d[i] = F::template apply<T>(d[i], a[i], b[i]);
}

template <typename T>
inline T scalar_as(uint64_t bits) {
  if constexpr (sizeof(T) == 8)
    return bits_as<T>(bits);
  else if constexpr (sizeof(T) == 4)
    return bits_as<T>(static_cast<uint32_t>(bits));
  else
    return static_cast<T>(bits);
}

template <typename T, typename F>
void map_scalar(uint8_t* d8, const uint8_t* a8, uint64_t bits, size_t n) {
  auto* d = reinterpret_cast<Aliased<T>*>(d8);
  const auto* a = reinterpret_cast<const Aliased<T>*>(a8);
  const T b = scalar_as<T>(bits);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) d[i] = F::template apply<T>(d[i], a[i], b);
}

template <typename To, typename From, typename F>
void map_unary(uint8_t* d8, const uint8_t* a8, const uint8_t*, size_t n) {
  auto* d = reinterpret_cast<Aliased<To>*>(d8);
  const auto* a = reinterpret_cast<const Aliased<From>*>(a8);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) d[i] = F::apply(a[i]);
}

// Comparisons: unsigned or signed integers, or floats; of elements, and of GCC's vectors.
#define NPU_COMPARE(Name, expression)    \
  struct Name {                          \
    template <typename T>                \
    static inline auto apply(T a, T b) { \
      return expression;                 \
    }                                    \
  };
NPU_COMPARE(Equal, a == b)
NPU_COMPARE(NotEqual, a != b)
NPU_COMPARE(Less, a < b)
NPU_COMPARE(LessEqual, a <= b)
NPU_COMPARE(Greater, a > b)
NPU_COMPARE(GreaterEqual, a >= b)
#undef NPU_COMPARE

#ifdef __AVX2__
// One bit per element of a mask vector of 32 bytes.
template <size_t kBytes, typename Mask>
inline uint32_t vector_bits(Mask mask) {
  const auto bits = reinterpret_cast<__m256i>(mask);
  if constexpr (kBytes == 4) return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(bits)));
  if constexpr (kBytes == 8) return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(bits)));
  if constexpr (kBytes == 1) return static_cast<uint32_t>(_mm256_movemask_epi8(bits));
  const __m128i packed = _mm_packs_epi16(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  return static_cast<uint32_t>(_mm_movemask_epi8(packed));
}
#endif

// Bit i of `bits` is F(a(i), b(i)); n is a multiple of 8. `load_b` gives an element, `vector_b` 32 bytes of
// them.
template <typename T, typename F, typename LoadB, typename VectorB>
inline void compare_rows(uint8_t* bits, const uint8_t* a8, size_t n, LoadB load_b,
                         [[maybe_unused]] VectorB vector_b) {
  const auto* a = reinterpret_cast<const Aliased<T>*>(a8);
  size_t i = 0;
#ifdef __AVX2__
  typedef T Vector __attribute__((vector_size(32)));
  constexpr size_t kElements = 32 / sizeof(T);
  constexpr size_t kStep = kElements < 8 ? 8 : kElements;
  for (; i + kStep <= n; i += kStep) {
    uint32_t word = 0;
    for (size_t part = 0; part < kStep; part += kElements) {
      Vector first, second;
      __builtin_memcpy(&first, a + i + part, sizeof first);
      vector_b(i + part, second);
      word |= vector_bits<sizeof(T)>(F::template apply<Vector>(first, second)) << part;
    }
    __builtin_memcpy(bits + i / 8, &word, kStep / 8);
  }
#endif
  for (; i + 8 <= n; i += 8) {
    uint32_t byte = 0;
    for (size_t part = 0; part < 8; ++part)
      byte |= static_cast<uint32_t>(F::template apply<T>(a[i + part], load_b(i + part)) ? 1 : 0) << part;
    bits[i / 8] = static_cast<uint8_t>(byte);
  }
}

template <typename T, typename F>
void compare_vector(uint8_t* bits, const uint8_t* a8, const uint8_t* b8, size_t n) {
  const auto* b = reinterpret_cast<const Aliased<T>*>(b8);
  compare_rows<T, F>(
      bits, a8, n, [b](size_t i) { return static_cast<T>(b[i]); },
      [b8](size_t i, auto& second) { __builtin_memcpy(&second, b8 + i * sizeof(T), sizeof second); });
}

template <typename T, typename F>
void compare_scalar(uint8_t* bits, const uint8_t* a8, uint64_t scalar, size_t n) {
  const T b = scalar_as<T>(scalar);
  compare_rows<T, F>(
      bits, a8, n, [b](size_t) { return b; },
      [b](size_t, auto& second) {
        for (size_t i = 0; i < sizeof second / sizeof(T); ++i) second[i] = b;
      });
}

// f16 through f32: exact operands, one rounding more that never changes the result (24 >= 2 * 11 + 2 bits).
constexpr size_t kHalfBlock = 256;

template <typename F>
void half_vector(uint8_t* d8, const uint8_t* a8, const uint8_t* b8, size_t n) {
  float a[kHalfBlock], b[kHalfBlock], r[kHalfBlock];
  for (size_t done = 0; done < n; done += kHalfBlock) {
    const size_t part = n - done < kHalfBlock ? n - done : kHalfBlock;
    halves_to_floats(a8 + done * 2, a, part);
    if (b8 != nullptr) halves_to_floats(b8 + done * 2, b, part);
    for (size_t i = 0; i < part; ++i)
      r[i] = F::template apply<float>(0.0f, a[i], b8 != nullptr ? b[i] : 0.0f);
    floats_to_halves(r, d8 + done * 2, part);
  }
}

template <typename F>
void half_scalar(uint8_t* d8, const uint8_t* a8, uint64_t bits, size_t n) {
  uint8_t copy[2] = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)};
  float b = 0;
  halves_to_floats(copy, &b, 1);
  float a[kHalfBlock], r[kHalfBlock];
  for (size_t done = 0; done < n; done += kHalfBlock) {
    const size_t part = n - done < kHalfBlock ? n - done : kHalfBlock;
    halves_to_floats(a8 + done * 2, a, part);
    for (size_t i = 0; i < part; ++i) r[i] = F::template apply<float>(0.0f, a[i], b);
    floats_to_halves(r, d8 + done * 2, part);
  }
}

template <typename F>
void half_compare_vector(uint8_t* bits, const uint8_t* a8, const uint8_t* b8, size_t n) {
  float a[kHalfBlock], b[kHalfBlock];
  for (size_t done = 0; done < n; done += kHalfBlock) {
    const size_t part = n - done < kHalfBlock ? n - done : kHalfBlock;
    halves_to_floats(a8 + done * 2, a, part);
    halves_to_floats(b8 + done * 2, b, part);
    compare_vector<float, F>(bits + done / 8, reinterpret_cast<const uint8_t*>(a),
                             reinterpret_cast<const uint8_t*>(b), part);
  }
}

template <typename F>
void half_compare_scalar(uint8_t* bits, const uint8_t* a8, uint64_t scalar, size_t n) {
  uint8_t copy[2] = {static_cast<uint8_t>(scalar), static_cast<uint8_t>(scalar >> 8)};
  float b = 0;
  halves_to_floats(copy, &b, 1);
  float a[kHalfBlock];
  for (size_t done = 0; done < n; done += kHalfBlock) {
    const size_t part = n - done < kHalfBlock ? n - done : kHalfBlock;
    halves_to_floats(a8 + done * 2, a, part);
    compare_scalar<float, F>(bits + done / 8, reinterpret_cast<const uint8_t*>(a), bits_as<uint32_t>(b),
                             part);
  }
}

template <typename F>
void add_integer(Bodies& bodies, Op op) {
  const auto at = static_cast<size_t>(op);
  bodies.vector[at] = {map_vector<uint8_t, F>, map_vector<uint16_t, F>, map_vector<uint32_t, F>,
                       map_vector<uint64_t, F>};
  bodies.scalar[at] = {map_scalar<uint8_t, F>, map_scalar<uint16_t, F>, map_scalar<uint32_t, F>,
                       map_scalar<uint64_t, F>};
}

template <typename F>
void add_bits(Bodies& bodies, Op op) {  // sign injection: no SEW 8
  add_integer<F>(bodies, op);
  bodies.vector[static_cast<size_t>(op)][0] = nullptr;
  bodies.scalar[static_cast<size_t>(op)][0] = nullptr;
}

template <typename F>
void add_float(Bodies& bodies, Op op, bool half) {
  const auto at = static_cast<size_t>(op);
  bodies.vector[at] = {nullptr, half ? half_vector<F> : nullptr, map_vector<float, F>, map_vector<double, F>};
  bodies.scalar[at] = {nullptr, half ? half_scalar<F> : nullptr, map_scalar<float, F>, map_scalar<double, F>};
}

template <typename F, bool kSigned>
void add_compare(Bodies& bodies, Op op) {
  const auto at = static_cast<size_t>(op);
  if constexpr (kSigned) {
    bodies.vector[at] = {compare_vector<int8_t, F>, compare_vector<int16_t, F>, compare_vector<int32_t, F>,
                         compare_vector<int64_t, F>};
    bodies.scalar[at] = {compare_scalar<int8_t, F>, compare_scalar<int16_t, F>, compare_scalar<int32_t, F>,
                         compare_scalar<int64_t, F>};
  } else {
    bodies.vector[at] = {compare_vector<uint8_t, F>, compare_vector<uint16_t, F>, compare_vector<uint32_t, F>,
                         compare_vector<uint64_t, F>};
    bodies.scalar[at] = {compare_scalar<uint8_t, F>, compare_scalar<uint16_t, F>, compare_scalar<uint32_t, F>,
                         compare_scalar<uint64_t, F>};
  }
}

template <typename F>
void add_float_compare(Bodies& bodies, Op op) {
  const auto at = static_cast<size_t>(op);
  bodies.vector[at] = {nullptr, half_compare_vector<F>, compare_vector<float, F>, compare_vector<double, F>};
  bodies.scalar[at] = {nullptr, half_compare_scalar<F>, compare_scalar<float, F>, compare_scalar<double, F>};
}

#define NPU_UNARY(Name, From, expression)                   \
  struct Name {                                             \
    static inline auto apply(From a) { return expression; } \
  };
NPU_UNARY(SignedFromFloat, float, (to_signed<float, false>(a)))
NPU_UNARY(SignedFromDouble, double, (to_signed<double, false>(a)))
NPU_UNARY(UnsignedFromFloat, float, (to_unsigned<float, false>(a)))
NPU_UNARY(UnsignedFromDouble, double, (to_unsigned<double, false>(a)))
NPU_UNARY(TruncatedFloat, float, (to_signed<float, true>(a)))
NPU_UNARY(TruncatedDouble, double, (to_signed<double, true>(a)))
NPU_UNARY(TruncatedUnsignedFloat, float, (to_unsigned<float, true>(a)))
NPU_UNARY(TruncatedUnsignedDouble, double, (to_unsigned<double, true>(a)))
NPU_UNARY(FloatFromSigned, int32_t, static_cast<float>(a))
NPU_UNARY(DoubleFromSigned, int64_t, static_cast<double>(a))
NPU_UNARY(FloatFromUnsigned, uint32_t, static_cast<float>(a))
NPU_UNARY(DoubleFromUnsigned, uint64_t, static_cast<double>(a))
#undef NPU_UNARY

void half_sqrt(uint8_t* d, const uint8_t* a, const uint8_t*, size_t n) {
  half_vector<FloatSqrt>(d, a, nullptr, n);
}

template <typename F>
void root_row(uint8_t* d8, const uint8_t* a8, const uint8_t*, size_t n) {
  auto* d = reinterpret_cast<Aliased<F>*>(d8);
  const auto* a = reinterpret_cast<const Aliased<F>*>(a8);
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) d[i] = canonical<F>(root(a[i]));
}

void add_unary(Bodies& bodies) {
  const auto set = [&](Op op, BinaryBody half, BinaryBody single, BinaryBody twice) {
    bodies.vector[static_cast<size_t>(op)] = {nullptr, half, single, twice};
  };
  set(Op::Fsqrt, half_sqrt, root_row<float>, root_row<double>);
  set(Op::FcvtXF, nullptr, map_unary<int32_t, float, SignedFromFloat>,
      map_unary<int64_t, double, SignedFromDouble>);
  set(Op::FcvtXuF, nullptr, map_unary<uint32_t, float, UnsignedFromFloat>,
      map_unary<uint64_t, double, UnsignedFromDouble>);
  set(Op::FcvtRtzXF, nullptr, map_unary<int32_t, float, TruncatedFloat>,
      map_unary<int64_t, double, TruncatedDouble>);
  set(Op::FcvtRtzXuF, nullptr, map_unary<uint32_t, float, TruncatedUnsignedFloat>,
      map_unary<uint64_t, double, TruncatedUnsignedDouble>);
  set(Op::FcvtFX, nullptr, map_unary<float, int32_t, FloatFromSigned>,
      map_unary<double, int64_t, DoubleFromSigned>);
  set(Op::FcvtFXu, nullptr, map_unary<float, uint32_t, FloatFromUnsigned>,
      map_unary<double, uint64_t, DoubleFromUnsigned>);
}

void add_elementwise(Bodies& bodies) {
  add_integer<IntAdd>(bodies, Op::Add);
  add_integer<IntSub>(bodies, Op::Sub);
  add_integer<IntRsub>(bodies, Op::Rsub);
  add_integer<IntAnd>(bodies, Op::And);
  add_integer<IntOr>(bodies, Op::Or);
  add_integer<IntXor>(bodies, Op::Xor);
  add_integer<IntMinu>(bodies, Op::Minu);
  add_integer<IntMin>(bodies, Op::Min);
  add_integer<IntMaxu>(bodies, Op::Maxu);
  add_integer<IntMax>(bodies, Op::Max);
  add_integer<IntSll>(bodies, Op::Sll);
  add_integer<IntSrl>(bodies, Op::Srl);
  add_integer<IntSra>(bodies, Op::Sra);
  add_integer<IntMul>(bodies, Op::Mul);
  add_integer<IntMulh>(bodies, Op::Mulh);
  add_integer<IntMulhu>(bodies, Op::Mulhu);
  add_integer<IntDivu>(bodies, Op::Divu);
  add_integer<IntDiv>(bodies, Op::Div);
  add_integer<IntRemu>(bodies, Op::Remu);
  add_integer<IntRem>(bodies, Op::Rem);
  add_integer<IntMove>(bodies, Op::Move);
  add_integer<IntMacc>(bodies, Op::Macc);
  add_integer<IntNmsac>(bodies, Op::Nmsac);
  add_integer<IntMadd>(bodies, Op::Madd);
  add_integer<IntNmsub>(bodies, Op::Nmsub);
  add_float<FloatAdd>(bodies, Op::Fadd, true);
  add_float<FloatSub>(bodies, Op::Fsub, true);
  add_float<FloatRsub>(bodies, Op::Frsub, true);
  add_float<FloatMul>(bodies, Op::Fmul, true);
  add_float<FloatDiv>(bodies, Op::Fdiv, true);
  add_float<FloatRdiv>(bodies, Op::Frdiv, true);
  add_float<FloatExtreme<false>>(bodies, Op::Fmin, true);
  add_float<FloatExtreme<true>>(bodies, Op::Fmax, true);
  add_float<FloatMacc>(bodies, Op::Fmacc, false);
  add_float<FloatNmacc>(bodies, Op::Fnmacc, false);
  add_float<FloatMsac>(bodies, Op::Fmsac, false);
  add_float<FloatNmsac>(bodies, Op::Fnmsac, false);
  add_float<FloatMadd>(bodies, Op::Fmadd, false);
  add_float<FloatNmadd>(bodies, Op::Fnmadd, false);
  add_float<FloatMsub>(bodies, Op::Fmsub, false);
  add_float<FloatNmsub>(bodies, Op::Fnmsub, false);
  add_bits<SignInject<0>>(bodies, Op::Fsgnj);
  add_bits<SignInject<1>>(bodies, Op::Fsgnjn);
  add_bits<SignInject<2>>(bodies, Op::Fsgnjx);
  add_unary(bodies);
  add_compare<Equal, false>(bodies, Op::Seq);
  add_compare<NotEqual, false>(bodies, Op::Sne);
  add_compare<Less, false>(bodies, Op::Sltu);
  add_compare<LessEqual, false>(bodies, Op::Sleu);
  add_compare<Greater, false>(bodies, Op::Sgtu);
  add_compare<Less, true>(bodies, Op::Slt);
  add_compare<LessEqual, true>(bodies, Op::Sle);
  add_compare<Greater, true>(bodies, Op::Sgt);
  add_float_compare<Equal>(bodies, Op::Feq);
  add_float_compare<NotEqual>(bodies, Op::Fne);
  add_float_compare<Less>(bodies, Op::Flt);
  add_float_compare<LessEqual>(bodies, Op::Fle);
  add_float_compare<Greater>(bodies, Op::Fgt);
  add_float_compare<GreaterEqual>(bodies, Op::Fge);
}

}  // namespace
}  // namespace npu::engine::NPU_LEVEL
