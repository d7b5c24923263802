#include "l2_slice.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace npu::timing {

bool L2Slice::full(bool) const {
  const size_t stages = shared_.latency_ticks / shared_.burst_ticks;
  return turns_.size() >= shared_.entries + stages || to_dram_.size() >= shared_.entries;
}

// A request is looked up when it comes, so that what the L2 holds follows the order of arrival; the rest
// happens when its turn is over.
void L2Slice::push(const BurstRequest& request) {
  const L2Tags::Outcome outcome = shared_.tags.access(request.burst, request.store);
  forget();
  Tick ready = 0;
  Next next = outcome.hit || (request.store && !outcome.around) ? Next::Answer : Next::Dram;
  if (next == Next::Answer && !request.store) {
    const auto fill = fills_.find(request.burst);
    if (fill != fills_.end() && fill->second.reads == 0) {
      ready = fill->second.ready;
    } else if (fill != fills_.end()) {
      fill->second.joined.push_back(request.token);
      next = Next::Joined;
    }
  }
  if (next == Next::Dram) {
    if (filled_.size() <= request.token) filled_.resize(request.token + 1);
    filled_[request.token] = request.store ? kNoFill : request.burst;
    if (!request.store) ++fills_[request.burst].reads;
  }
  port_free_ = std::max(port_free_, shared_.events.now()) + shared_.burst_ticks;
  turns_.push_back({request, next, port_free_ + shared_.latency_ticks, ready});
  if (turns_.size() == 1) shared_.events.at(turns_.front().over, *this, 0);
  for (uint64_t rest = outcome.dirty; rest; rest &= rest - 1) {
    const uint64_t burst = outcome.victim + static_cast<uint64_t>(std::countr_zero(rest));
    const BurstLocation at = shared_.map.locate(burst);
    shared_.slices[at.unit]->to_dram({at.row, at.bank, kWriteBack, true, burst});
  }
}

void L2Slice::act(uint64_t) {
  const bool was_full = full(false);
  const Turn turn = turns_.front();
  turns_.pop_front();
  if (!turns_.empty()) shared_.events.at(turns_.front().over, *this, 0);
  if (turn.next == Next::Answer)
    owner_.served(turn.request.token, std::max(shared_.events.now(), turn.ready));
  if (turn.next == Next::Dram) to_dram(turn.request);
  if (was_full && !full(false)) owner_.has_room(turn.request.store);
}

void L2Slice::to_dram(const BurstRequest& request) {
  to_dram_.push_back(request);
  drain();
}

// Nothing that comes now waits for fills that are ready. One that was read again is in the line twice.
void L2Slice::forget() {
  for (; !ended_.empty(); ended_.pop_front()) {
    const auto fill = fills_.find(ended_.front());
    if (fill == fills_.end() || fill->second.reads > 0) continue;
    if (fill->second.ready > shared_.events.now()) return;
    fills_.erase(fill);
  }
}

void L2Slice::drain() {
  while (!to_dram_.empty() && !dram_->full(to_dram_.front().store)) {
    const BurstRequest request = to_dram_.front();
    to_dram_.pop_front();
    dram_->push(request);
  }
}

void L2Slice::has_room(bool store) {
  const bool was_full = full(false);
  drain();
  if (was_full && !full(false)) owner_.has_room(store);
}

void L2Slice::served(uint32_t token, Tick done) {
  if (token == kWriteBack) return;
  const Tick back = done + shared_.controller_ticks;
  owner_.served(token, back);
  if (filled_[token] == kNoFill) return;
  const auto fill = fills_.find(filled_[token]);
  const std::vector<uint32_t> joined = std::move(fill->second.joined);
  fill->second.joined.clear();
  if (--fill->second.reads == 0) {
    fill->second.ready = back;
    ended_.push_back(fill->first);
  }
  for (const uint32_t other : joined) owner_.served(other, back);
}

}  // namespace npu::timing
