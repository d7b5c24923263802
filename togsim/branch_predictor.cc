#include "branch_predictor.h"

namespace npu {
namespace {

// Table sizes: gem5 24.0, src/cpu/pred/BranchPredictor.py, TournamentBP and SimpleIndirectPredictor.
constexpr uint32_t kLocalEntries = 2048, kGlobalEntries = 8192;
constexpr uint32_t kIndirectHistory = 8192;
constexpr uint32_t kHistoryMask = kGlobalEntries - 1;
constexpr size_t kReturnEntries = 16;

void count(uint8_t& counter, bool up) {
  if (up && counter < 3) ++counter;
  if (!up && counter > 0) --counter;
}

}  // namespace

void BranchPredictor::clear() {
  local_counters_.assign(kLocalEntries, 0);
  global_counters_.assign(kGlobalEntries, 0);
  choice_counters_.assign(kGlobalEntries, 0);
  local_histories_.clear();
  targets_.clear();
  indirect_targets_.clear();
  return_stack_.clear();
  history_ = 0;
}

bool BranchPredictor::predict_direction(uint64_t pc, bool taken) {
  uint32_t& local_history = local_histories_[pc];
  uint8_t& local = local_counters_[local_history & (kLocalEntries - 1)];
  uint8_t& global = global_counters_[history_ & kHistoryMask];
  uint8_t& choice = choice_counters_[history_ & kHistoryMask];
  const bool local_says = local >= 2, global_says = global >= 2;
  const bool result = choice >= 2 ? global_says : local_says;
  if (local_says != global_says) count(choice, global_says == taken);
  count(local, taken);
  count(global, taken);
  local_history = local_history << 1 | static_cast<uint32_t>(taken);
  return result;
}

Prediction BranchPredictor::step(BranchKind kind, uint64_t pc, bool taken, const BranchTarget& target,
                                 uint64_t return_pc) {
  const bool unconditional = kind != BranchKind::Conditional;
  const bool indirect =
      kind == BranchKind::Indirect || kind == BranchKind::IndirectCall || kind == BranchKind::IndirectConfig;
  bool predicted = unconditional || predict_direction(pc, taken);
  const BranchTarget* said = nullptr;
  const uint64_t indirect_key = pc << 13 | (history_ & (kIndirectHistory - 1));
  if (kind == BranchKind::Return) {
    if (!return_stack_.empty()) said = &return_stack_.back();
  } else if (indirect) {
    const auto found = indirect_targets_.find(indirect_key);
    if (found != indirect_targets_.end()) said = &found->second;
  } else if (predicted) {
    const auto found = targets_.find(pc);
    if (found != targets_.end()) said = &found->second;
  }
  predicted = predicted && said != nullptr;
  const Prediction result{predicted, predicted != taken || (taken && !(*said == target))};

  if (kind == BranchKind::Return && !return_stack_.empty()) return_stack_.pop_back();
  if (result.wrong && taken) {
    if (indirect) {
      indirect_targets_[indirect_key] = target;
    } else if (kind != BranchKind::Return) {
      targets_[pc] = target;
    }
  }
  if (kind == BranchKind::Call || kind == BranchKind::IndirectCall) {
    if (return_stack_.size() == kReturnEntries) return_stack_.erase(return_stack_.begin());
    return_stack_.push_back({return_pc, target.vl, target.sew_bits, target.lmul});
  }
  history_ = (history_ << 1 | static_cast<uint32_t>(taken)) & kHistoryMask;
  return result;
}

}  // namespace npu
