// The load-store queue: a request becomes a transfer when there is room; loads go to the cache at once,
// stores wait for their commit and drain from the store buffer. The cache always hits; it answers one packet
// per cycle on time, others of the same cycle a cycle later.
#include <algorithm>

#include "minor_pipeline.h"

namespace npu {
namespace {

bool overlap(uint64_t a, uint32_t a_bytes, uint64_t b, uint32_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

void MinorPipeline::receive_responses() {
  for (const Response& response : responses_) {
    if (response.visible > now_) continue;
    --accesses_in_memory_;
    for (std::deque<Access>* queue : {&transfers_, &store_buffer_}) {
      for (Access& access : *queue)
        if (access.seq == response.seq) ++access.answered;
    }
    if (has_request_ && request_.seq == response.seq) ++request_.answered;
  }
  std::erase_if(responses_, [&](const Response& response) { return response.visible <= now_; });
  std::erase_if(store_buffer_, [](const Access& access) { return access.complete(); });
}

// One packet; true when it was the last one.
bool MinorPipeline::send_packet(Access& access) {
  if (accesses_in_memory_ >= params_.accesses_in_memory) return false;
  ++accesses_in_memory_;
  responses_.push_back({now_ + params_.cache_cycles + (sent_in_cycle_ > 0), access.seq});
  ++sent_in_cycle_;
  return ++access.sent == access.packets;
}

void MinorPipeline::request(const MicroOp& op) {
  const uint64_t width = params_.memory_width_bytes;
  request_ = {op.seq, op.address, op.bytes, 1, 0, 0, op.store};
  request_.packets = static_cast<uint32_t>((op.address + op.bytes - 1) / width - op.address / width + 1);
  has_request_ = true;
  try_transfer();
}

void MinorPipeline::try_transfer() {
  if (transfers_.size() >= params_.transfer_entries) return;
  if (!request_.store) {
    // Loads pass stores only once those are in the store buffer, where they can be compared.
    for (const Access& access : transfers_)
      if (access.store) return;
    for (auto store = store_buffer_.rbegin(); store != store_buffer_.rend(); ++store) {
      if (!overlap(store->address, store->bytes, request_.address, request_.bytes)) continue;
      if (store->address > request_.address ||
          store->address + store->bytes < request_.address + request_.bytes)
        return;
      request_.answered = request_.packets;  // forwarded
      break;
    }
    if (!request_.complete() && !send_packet(request_)) return;
  }
  transfers_.push_back(request_);
  has_request_ = false;
}

bool MinorPipeline::response_of(uint64_t seq) const {
  if (transfers_.empty() || transfers_.front().seq != seq) return false;
  const Access& access = transfers_.front();
  return access.store ? store_buffer_.size() < params_.store_buffer_entries : access.complete();
}

void MinorPipeline::step_queue() {
  if (has_request_) try_transfer();
  uint32_t stores = 0;
  for (Access& store : store_buffer_) {
    if (store.sent == store.packets) continue;
    if (stores == params_.stores_per_cycle || !send_packet(store)) return;
    ++stores;
  }
}

}  // namespace npu
