// The systolic arrays of a core as the program sees them: a weight matrix and a queue of results each.
#pragma once

#include <cstdint>
#include <vector>

#include "native/bodies.h"

namespace npu::engine {

// Values are held widened: floats as float32, integers as int32. The kind of a matrix is that of its first
// push.
class Arrays {
 public:
  Arrays(uint32_t count, uint32_t lanes, uint32_t queue_entries, const Bodies& bodies);

  uint32_t count() const { return static_cast<uint32_t>(arrays_.size()); }
  uint32_t queued(uint32_t array) const { return arrays_[array].queued; }

  void reset();

  // Throws Fault. Rows and inputs are [element][lane] in machine words of 32 bits, `elements * lanes` of
  // them.
  void push_weights(uint32_t array, bool first, bool integer, uint32_t elements, const uint32_t* rows);
  void push_inputs(uint32_t array, bool integer, uint32_t elements, const uint32_t* inputs);
  // The oldest `elements` results, [element][lane].
  void pop(uint32_t array, bool integer, uint32_t elements, uint32_t* results);

 private:
  struct Array {
    std::vector<uint32_t> weights;  // [k][j]
    uint32_t rows = 0;
    bool integer = false;
    std::vector<uint32_t> queue;  // ring of results, [entry][j]
    uint32_t head = 0;
    uint32_t queued = 0;
    bool queue_integer = false;
  };
  void multiply_floats(const Array& array, const uint32_t* inputs, uint32_t count, uint32_t* results) const;

  const Bodies& bodies_;
  uint32_t lanes_;
  uint32_t queue_entries_;
  std::vector<Array> arrays_;
};

}  // namespace npu::engine
