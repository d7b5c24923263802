// Systolic arrays in the lane core's scoreboard: queues, shadow weights, fill and drain
// (docs/timing_model.md).
#include <algorithm>

#include "lane_core.h"

namespace npu {

void LaneCore::reset_arrays() {
  if (!arrays_used_) return;
  for (Array& array : arrays_) array = {};
  arrays_used_ = false;
}

namespace {

// Rows that wait in a queue are those that the array, one per cycle from `start` on, has not taken yet.
uint64_t when_queue_has_room(uint64_t cycle, uint64_t start, uint64_t rows, uint64_t entries) {
  const uint64_t end = start + std::min(rows, entries);
  return end > cycle + entries ? end - entries : cycle;
}

}  // namespace

// First cycle from `cycle` on in which the arrays named can take or give the rows.
uint64_t LaneCore::array_issue(const InstructionTiming& instruction, const VectorState& state,
                               uint64_t cycle) const {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!(instruction.arrays >> i & 1)) continue;
    const Array& array = arrays_[i];
    if (instruction.op == OpClass::ArrayWeights) {
      cycle = std::max(cycle, array.weights_port_free);
      const uint64_t from =
          instruction.first_weights ? std::max(array.weights_taken, array.shadow_free) : array.weights_taken;
      cycle = when_queue_has_room(cycle, std::max(from, cycle), state.vl, params_.array_queue_entries);
    } else if (instruction.op == OpClass::ArrayInputs) {
      const uint64_t start = std::max({cycle, array.inputs_free, array.weights_loaded});
      cycle = when_queue_has_room(cycle, start, state.vl, params_.array_queue_entries);
    } else if (!array.results.empty()) {
      uint64_t rows = state.vl, taken = 0;
      for (const Array::Rows& front : array.results) {
        const uint64_t part = std::min(rows - taken, front.rows);
        // Row i of the part is popped in cycle + taken + i and ready in front.ready + i.
        if (front.ready > cycle + taken) cycle = front.ready - taken;
        taken += part;
        if (taken == rows) break;
      }
    }
  }
  return cycle;
}

// Returns the cycle in which the rows have left the vector registers or arrived there.
uint64_t LaneCore::array_commit(const InstructionTiming& instruction, const VectorState& state,
                                uint64_t cycle) {
  const uint64_t rows = state.vl;
  arrays_used_ = true;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!(instruction.arrays >> i & 1)) continue;
    Array& array = arrays_[i];
    if (instruction.op == OpClass::ArrayWeights) {
      array.weights_port_free = cycle + rows;
      uint64_t start = std::max(cycle, array.weights_taken);
      if (instruction.first_weights) {
        // The shadow set is free once its matrix is the active one; an unused matrix is overwritten.
        start = std::max(start, array.shadow_free);
        array.weights_loaded = start + params_.lanes;
        array.shadow_waits = true;
      }
      array.weights_taken = start + rows;
      array.weights_loaded = std::max(array.weights_loaded, array.weights_taken);
    } else if (instruction.op == OpClass::ArrayInputs) {
      const uint64_t start = std::max({cycle, array.inputs_free, array.weights_loaded});
      if (array.shadow_waits) array.shadow_free = start;
      array.shadow_waits = false;
      array.inputs_free = start + rows;
      const uint64_t ready = start + 2 * uint64_t{params_.lanes} - 1;
      array.results.push_back({ready, rows});
      last_done_ = std::max(last_done_, ready + rows - 1);
    } else {
      uint64_t left = rows;
      while (left && !array.results.empty()) {
        Array::Rows& front = array.results.front();
        const uint64_t part = std::min(left, front.rows);
        front.ready += part;
        front.rows -= part;
        left -= part;
        if (!front.rows) array.results.pop_front();
      }
    }
  }
  return cycle + rows;
}

}  // namespace npu
