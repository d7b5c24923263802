// The whole set of bodies in the namespace NPU_LEVEL. Included once per level.
//
// Everything here has internal linkage or lies in that namespace, so that no code of one level is linked into
// another.
#pragma once

#include "native/bodies.h"
#include "native/convert.h"
#include "native/elementwise.h"
#include "native/permute.h"
#include "native/product.h"
#include "native/special.h"
#include "native/transpose.h"

namespace npu::engine::NPU_LEVEL {

Bodies make_bodies() {
  Bodies bodies;
  add_elementwise(bodies);
  add_convert(bodies);
  add_permute(bodies);
  add_transpose(bodies);
  bodies.halves_to_floats = halves_to_floats;
  bodies.floats_to_halves = floats_to_halves;
  bodies.bfloats_to_floats = bfloats_to_floats;
  bodies.floats_to_bfloats = floats_to_bfloats;
  bodies.special_function = special_function;
  bodies.multiply_floats = multiply_floats;
  bodies.multiply_integers = multiply_integers;
  return bodies;
}

}  // namespace npu::engine::NPU_LEVEL
