// Branch prediction of gem5's MinorCPU in its default configuration: a tournament of a local and a global
// predictor, a branch target buffer, a return stack, and a history-indexed table for indirect targets. A
// target is an address *and* the vector configuration, because gem5 keeps vl and vtype in the program
// counter's state.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "instruction_timing.h"

namespace npu {

struct BranchTarget {
  uint64_t pc = 0;
  uint32_t vl = 0;
  uint8_t sew_bits = 0;
  float lmul = 1;

  bool operator==(const BranchTarget&) const = default;
};

struct Prediction {
  bool taken = false;
  bool wrong = false;
};

class BranchPredictor {
 public:
  void clear();
  // Predicts the branch at `pc` and learns what it does. `taken`: it changes the address or the vector
  // configuration.
  Prediction step(BranchKind kind, uint64_t pc, bool taken, const BranchTarget& target, uint64_t return_pc);

 private:
  bool predict_direction(uint64_t pc, bool taken);

  std::vector<uint8_t> local_counters_, global_counters_, choice_counters_;
  std::unordered_map<uint64_t, uint32_t> local_histories_;
  std::unordered_map<uint64_t, BranchTarget> targets_;
  std::unordered_map<uint64_t, BranchTarget> indirect_targets_;  // by address and history
  std::vector<BranchTarget> return_stack_;
  uint32_t history_ = 0;
};

}  // namespace npu
