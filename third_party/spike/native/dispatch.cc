// Which set of bodies this machine can run.
#include <stdexcept>
#include <string>

#include "native/bodies.h"

namespace npu::engine {

namespace v2 {
Bodies make_bodies();
}
namespace v3 {
Bodies make_bodies();
}
namespace v4 {
Bodies make_bodies();
}

namespace {

bool has_level(uint32_t level) {
  __builtin_cpu_init();
  switch (level) {
    case 2:
      return __builtin_cpu_supports("sse4.2") != 0;
    case 3:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
             __builtin_cpu_supports("f16c") != 0 && __builtin_cpu_supports("bmi2") != 0;
    case 4:
      return has_level(3) && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0;
    default:
      return false;
  }
}

}  // namespace

const Bodies& bodies(uint32_t level) {
  static const Bodies second = v2::make_bodies();
  static const Bodies third = v3::make_bodies();
  static const Bodies fourth = v4::make_bodies();
  if (level == 0) level = has_level(4) ? 4 : has_level(3) ? 3 : 2;
  if (level < 2 || level > 4 || !has_level(level))
    throw std::invalid_argument("this machine has no x86-64-v" + std::to_string(level));
  return level == 4 ? fourth : level == 3 ? third : second;
}

}  // namespace npu::engine
