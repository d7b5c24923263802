#include "dma_combine.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "element_types.h"

namespace npu::engine {

namespace {

// How an element type is read from memory, computed on, and written back.
template <typename T>
struct Plain {
  using Bits = T;
  using Value = T;
  static Value read(Bits bits) { return bits; }
  static Bits write(Value value) { return value; }
};
struct Half {
  using Bits = uint16_t;
  using Value = float;
  static Value read(Bits bits) { return half_to_float(bits); }
  static Bits write(Value value) { return float_to_half(value); }
};
struct Bfloat {
  using Bits = uint16_t;
  using Value = float;
  static Value read(Bits bits) { return bfloat_to_float(bits); }
  static Bits write(Value value) { return float_to_bfloat(value); }
};
struct E4m3 {
  using Bits = uint8_t;
  using Value = float;
  static Value read(Bits bits) { return fp8_e4m3fn_to_float(bits); }
  static Bits write(Value value) { return float_to_fp8_e4m3fn(value); }
};
struct E5m2 {
  using Bits = uint8_t;
  using Value = float;
  static Value read(Bits bits) { return fp8_e5m2_to_float(bits); }
  static Bits write(Value value) { return float_to_fp8_e5m2(value); }
};
struct Bool {
  using Bits = uint8_t;
  using Value = bool;
  static Value read(Bits bits) { return bits != 0; }
  static Bits write(Value value) { return value ? 1 : 0; }
};

template <typename T>
T add(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

template <typename T>
T least(T a, T b, bool maximum) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) != maximum ? a : b;  // -0 is below +0
  }
  return (a < b) != maximum ? a : b;
}

template <typename Type>
void apply(TransferOp op, uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride,
           int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    typename Type::Bits old_bits, new_bits;
    std::memcpy(&old_bits, to + i * to_stride, sizeof old_bits);
    std::memcpy(&new_bits, from + i * from_stride, sizeof new_bits);
    const auto a = Type::read(old_bits), b = Type::read(new_bits);
    const typename Type::Bits result =
        Type::write(op == TransferOp::StoreAdd ? add(a, b) : least(a, b, op == TransferOp::StoreMax));
    std::memcpy(to + i * to_stride, &result, sizeof result);
  }
}

using Apply = void (*)(TransferOp, uint8_t*, int64_t, const uint8_t*, int64_t, int64_t);

Apply body_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Float32:
      return apply<Plain<float>>;
    case Dtype::Float16:
      return apply<Half>;
    case Dtype::Bfloat16:
      return apply<Bfloat>;
    case Dtype::Float8E4m3fn:
      return apply<E4m3>;
    case Dtype::Float8E5m2:
      return apply<E5m2>;
    case Dtype::Int8:
      return apply<Plain<int8_t>>;
    case Dtype::Uint8:
      return apply<Plain<uint8_t>>;
    case Dtype::Int32:
      return apply<Plain<int32_t>>;
    case Dtype::Float64:
      return apply<Plain<double>>;
    case Dtype::Int16:
      return apply<Plain<int16_t>>;
    case Dtype::Uint16:
      return apply<Plain<uint16_t>>;
    case Dtype::Uint32:
      return apply<Plain<uint32_t>>;
    case Dtype::Int64:
      return apply<Plain<int64_t>>;
    case Dtype::Uint64:
      return apply<Plain<uint64_t>>;
    case Dtype::Bool:
      return apply<Bool>;
  }
  return nullptr;
}

}  // namespace

void combine(TransferOp op, Dtype dtype, uint8_t* to, int64_t to_stride_bytes, const uint8_t* from,
             int64_t from_stride_bytes, int64_t count) {
  body_of(dtype)(op, to, to_stride_bytes, from, from_stride_bytes, count);
}

}  // namespace npu::engine
