// The front end: lines from the instruction cache, instructions out of lines until a predicted branch,
// micro-operations into the issue buffer.
#include "minor_pipeline.h"

namespace npu {

// Now that its successor is known, the pending instruction can be predicted and queued for fetch.
void MinorPipeline::predict_pending(uint64_t next_pc, const VectorState& next_state) {
  if (!has_pending_) return;
  has_pending_ = false;
  const uint64_t following = pending_.pc + pending_size_;
  if (pending_kind_ != BranchKind::None) {
    const bool config =
        pending_kind_ == BranchKind::DirectConfig || pending_kind_ == BranchKind::IndirectConfig;
    const bool changed = next_state.vl != pending_state_.vl ||
                         next_state.sew_bits != pending_state_.sew_bits ||
                         next_state.lmul != pending_state_.lmul;
    const bool taken = config ? changed : next_pc != following;
    const Prediction prediction =
        predictor_.step(pending_kind_, pending_.pc, taken,
                        {next_pc, next_state.vl, next_state.sew_bits, next_state.lmul}, following);
    pending_.predicted_taken = prediction.taken;
    pending_.mispredicted = prediction.wrong;
    if (prediction.wrong) pending_.ops.back().redirects = true;
  }
  waiting_.push_back(std::move(pending_));
}

void MinorPipeline::fetch_lines() {
  if (redirect_ && redirect_at_ <= now_) {
    redirect_ = false;
    fetching_ = true;
    fetch1_epoch_ = fetch2_epoch_;
    fetch_address_ = waiting_.empty() ? 0 : waiting_.front().pc;
  }
  if (fetching_ && fetches_.size() < params_.fetches_in_flight &&
      reserved_lines_ < params_.fetch_buffer_lines) {
    const uint64_t base = fetch_address_ & ~uint64_t{params_.fetch_line_bytes - 1};
    fetches_.push_back({base, fetch1_epoch_, now_});
    ++reserved_lines_;
    fetch_address_ = base + params_.fetch_line_bytes;
  }
  if (!fetches_.empty() && fetches_.front().sent + params_.cache_cycles <= now_) {
    const Line line = fetches_.front();
    fetches_.pop_front();
    if (line.epoch == fetch1_epoch_) {
      line_latch_.push_back(line);
    } else {
      --reserved_lines_;
    }
  }
}

void MinorPipeline::fetch_instructions() {
  if (!line_latch_.empty()) {
    lines_.push_back(line_latch_.front());
    line_latch_.pop_front();
  }
  auto drop_line = [&] {
    lines_.pop_front();
    --reserved_lines_;
  };
  if (flush_lines_ && redirect_at_ <= now_) {
    flush_lines_ = wrong_path_ = false;
    while (!lines_.empty()) drop_line();
  }
  while (!lines_.empty() && lines_.front().epoch != fetch2_epoch_) drop_line();
  if (wrong_path_ || decode_buffer_.size() >= params_.decode_buffer_entries) return;

  std::vector<MicroOp> out;
  for (uint32_t count = 0; count < params_.decode_width && !lines_.empty() && !waiting_.empty();) {
    Waiting& next = waiting_.front();
    if (next.pc >= lines_.front().base + params_.fetch_line_bytes) {
      drop_line();
      continue;
    }
    ++count;
    out.insert(out.end(), next.ops.begin(), next.ops.end());
    const bool predicted = next.predicted_taken, wrong = next.mispredicted;
    waiting_.pop_front();
    if (!predicted && !wrong) continue;
    ++fetch2_epoch_;
    wrong_path_ = wrong;  // what it fetches now is thrown away later
    if (predicted) {
      while (!lines_.empty()) drop_line();
    }
    if (!wrong) {
      redirect_ = true;
      redirect_at_ = now_ + 1;
    }
    break;
  }
  decode_latch_ = std::move(out);
}

void MinorPipeline::decode() {
  if (!decode_latch_.empty()) decode_buffer_.push_back(std::move(decode_latch_));
  decode_latch_.clear();
  if (execute_buffer_.size() >= params_.issue_buffer_entries) return;
  std::vector<MicroOp> out;
  while (out.size() < params_.decode_width && !decode_buffer_.empty()) {
    const std::vector<MicroOp>& group = decode_buffer_.front();
    out.push_back(group[decode_index_++]);
    out.back().seq = next_seq_++;
    if (decode_index_ == group.size()) {
      decode_buffer_.pop_front();
      decode_index_ = 0;
    }
  }
  execute_latch_ = std::move(out);
}

}  // namespace npu
