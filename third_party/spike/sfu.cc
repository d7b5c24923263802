#include "sfu.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace npu::engine {

namespace {

template <typename Function>
void apply(Function function, const float* values, size_t count, float* results) {
  for (size_t i = 0; i < count; ++i) {
    const auto result = static_cast<float>(function(static_cast<double>(values[i])));
    results[i] = std::isnan(result) ? std::bit_cast<float>(UINT32_C(0x7fc00000)) : result;
  }
}

}  // namespace

void special_function(SfuFunction function, const float* values, size_t count, float* results) {
  switch (function) {
    case SfuFunction::Erf:
      return apply([](double x) { return std::erf(x); }, values, count, results);
    case SfuFunction::Tanh:
      return apply([](double x) { return std::tanh(x); }, values, count, results);
    case SfuFunction::Sin:
      return apply([](double x) { return std::sin(x); }, values, count, results);
    case SfuFunction::Cos:
      return apply([](double x) { return std::cos(x); }, values, count, results);
    case SfuFunction::Log:
      return apply([](double x) { return std::log(x); }, values, count, results);
    case SfuFunction::Atan:
      return apply([](double x) { return std::atan(x); }, values, count, results);
    case SfuFunction::Exp:
      return apply([](double x) { return std::exp(x); }, values, count, results);
  }
}

}  // namespace npu::engine
