#include "memory_node.h"

namespace npu::timing {

MemoryNode::MemoryNode(EventQueue& events, PacketNetwork& network, uint32_t node, uint64_t controller_cycles,
                       uint32_t response_entries, uint32_t burst_bytes)
    : events_(events),
      network_(network),
      node_(node),
      controller_ticks_(to_ticks(controller_cycles)),
      response_entries_(response_entries),
      burst_bytes_(burst_bytes) {
  network.attach(node, *this);
}

bool MemoryNode::receive(const Packet& packet) {
  // A network that takes no responses must be felt by those who ask.
  if (responses_.size() >= response_entries_ || channel_->full(packet.store)) {
    refused_ = true;
    return false;
  }
  uint32_t token = static_cast<uint32_t>(packets_.size());
  if (free_.empty()) {
    packets_.push_back(packet);
  } else {
    token = free_.back();
    free_.pop_back();
    packets_[token] = packet;
  }
  channel_->push({packet.row, packet.bank, token, packet.store, packet.burst});
  return true;
}

void MemoryNode::served(uint32_t token, Tick done) { events_.at(done + controller_ticks_, *this, token); }

void MemoryNode::has_room(bool) {
  if (!std::exchange(refused_, false)) return;
  network_.resume(node_, false);
}

void MemoryNode::act(uint64_t token) {
  responses_.push_back(static_cast<uint32_t>(token));
  if (responses_.size() == 1) can_send(true);
}

void MemoryNode::can_send(bool) {
  while (!responses_.empty()) {
    const uint32_t token = responses_.front();
    Packet packet = packets_[token];
    std::swap(packet.source, packet.target);
    packet.response = true;
    packet.bytes = packet.store ? 0 : burst_bytes_;  // an acknowledgement, or data
    if (!network_.send(packet)) return;
    free_.push_back(token);
    responses_.pop_front();
    if (responses_.size() + 1 == response_entries_) has_room(false);
  }
}

}  // namespace npu::timing
