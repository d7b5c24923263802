#include "arrays.h"

#include <algorithm>
#include <cstring>

#include "faults.h"

namespace npu::engine {

Arrays::Arrays(uint32_t count, uint32_t lanes, uint32_t queue_entries, const Bodies& bodies)
    : bodies_(bodies), lanes_(lanes), queue_entries_(queue_entries), arrays_(count) {
  for (Array& array : arrays_) {
    array.weights.assign(size_t{lanes} * lanes, 0);
    array.queue.assign(size_t{queue_entries} * lanes, 0);
  }
}

void Arrays::reset() {
  for (Array& array : arrays_) {
    array.rows = array.head = array.queued = 0;
    array.integer = array.queue_integer = false;
  }
}

void Arrays::push_weights(uint32_t number, bool first, bool integer, uint32_t elements,
                          const uint32_t* rows) {
  Array& array = arrays_[number];
  if (first) array.rows = 0;
  if (array.rows == 0) array.integer = integer;
  if (array.integer != integer)
    throw Fault(FaultKind::IllegalInstruction, "a weight matrix mixes integer and floating-point rows");
  if (array.rows + elements > lanes_)
    throw Fault(FaultKind::ArrayOverflow, "array " + std::to_string(number) + " holds " +
                                              std::to_string(array.rows) + " weight rows of " +
                                              std::to_string(lanes_) + ", " + std::to_string(elements) +
                                              " more do not fit; push the first with `first`");
  std::memcpy(array.weights.data() + size_t{array.rows} * lanes_, rows,
              size_t{elements} * lanes_ * sizeof(uint32_t));
  array.rows += elements;
}

void Arrays::push_inputs(uint32_t number, bool integer, uint32_t elements, const uint32_t* inputs) {
  Array& array = arrays_[number];
  if (elements == 0) return;
  if (array.rows != 0 && array.integer != integer)
    throw Fault(FaultKind::IllegalInstruction,
                "inputs and weights differ: one is integer, one floating-point");
  if (array.queued + elements > queue_entries_)
    throw Fault(FaultKind::ArrayOverflow, "the queue of array " + std::to_string(number) + " holds " +
                                              std::to_string(array.queued) + " of " +
                                              std::to_string(queue_entries_) + " results, " +
                                              std::to_string(elements) + " more do not fit");
  if (array.queued == 0) array.queue_integer = integer;
  if (array.queue_integer != integer)
    throw Fault(FaultKind::IllegalInstruction,
                "the queue of an array mixes integer and floating-point results");
  for (uint32_t done = 0; done < elements;) {
    const uint32_t tail = (array.head + array.queued) % queue_entries_;
    const uint32_t part = std::min(elements - done, queue_entries_ - tail);
    uint32_t* results = array.queue.data() + size_t{tail} * lanes_;
    const uint32_t* block = inputs + size_t{done} * lanes_;
    if (integer)
      bodies_.multiply_integers(block, array.weights.data(), array.rows, lanes_, part, results);
    else
      multiply_floats(array, block, part, results);
    array.queued += part;
    done += part;
  }
}

// Weights never pushed are zero, and zero times NaN or infinity is NaN: such an input spoils its whole row.
void Arrays::multiply_floats(const Array& array, const uint32_t* inputs, uint32_t count,
                             uint32_t* results) const {
  bodies_.multiply_floats(reinterpret_cast<const float*>(inputs),
                          reinterpret_cast<const float*>(array.weights.data()), array.rows, lanes_, count,
                          reinterpret_cast<float*>(results));
  constexpr uint32_t kExponent = 0x7f800000, kNan = 0x7fc00000;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t* input = inputs + size_t{i} * lanes_;
    uint32_t* result = results + size_t{i} * lanes_;
    uint32_t spoilt = 0;
    for (uint32_t k = array.rows; k < lanes_; ++k) spoilt |= (input[k] & kExponent) == kExponent ? 1 : 0;
    for (uint32_t j = 0; j < lanes_; ++j) {
      const bool nan = (result[j] & 0x7fffffff) > kExponent;
      result[j] = spoilt != 0 || nan ? kNan : result[j];
    }
  }
}

void Arrays::pop(uint32_t number, bool integer, uint32_t elements, uint32_t* results) {
  Array& array = arrays_[number];
  if (elements == 0) return;
  if (array.queued < elements)
    throw Fault(FaultKind::ArrayEmpty, "array " + std::to_string(number) + " has " +
                                           std::to_string(array.queued) + " results, " +
                                           std::to_string(elements) + " are asked for");
  if (array.queue_integer != integer)
    throw Fault(FaultKind::IllegalInstruction, integer
                                                   ? "floating-point results are popped as integers"
                                                   : "integer results are popped as floating-point numbers");
  for (uint32_t i = 0; i < elements; ++i) {
    std::memcpy(results + size_t{i} * lanes_, array.queue.data() + size_t{array.head} * lanes_,
                lanes_ * sizeof(uint32_t));
    array.head = (array.head + 1) % queue_entries_;
  }
  array.queued -= elements;
}

}  // namespace npu::engine
