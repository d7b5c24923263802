// A DRAM channel (or pseudo-channel) on a packet network: takes requests and answers them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "channel.h"
#include "packet_network.h"

namespace npu::timing {

class MemoryNode final : public Node, public ChannelOwner, public Actor {
 public:
  // `controller_cycles`: what controller and interface add to the DRAM's own latency.
  MemoryNode(EventQueue& events, PacketNetwork& network, uint32_t node, uint64_t controller_cycles,
             uint32_t response_entries, uint32_t burst_bytes);
  void attach(std::unique_ptr<Channel> channel) { channel_ = std::move(channel); }

  bool receive(const Packet& packet) override;
  void can_send(bool response) override;
  void served(uint32_t token, Tick done) override;
  void has_room(bool store) override;
  void act(uint64_t token) override;

  uint64_t in_flight() const { return packets_.size() - free_.size(); }
  Tick written() const { return channel_->written(); }
  ComponentStats stats(Tick end) { return channel_->stats(end); }

 private:
  EventQueue& events_;
  PacketNetwork& network_;
  uint32_t node_;
  Tick controller_ticks_;
  size_t response_entries_;
  uint32_t burst_bytes_;
  std::unique_ptr<Channel> channel_;
  std::vector<Packet> packets_;  // by token
  std::vector<uint32_t> free_;
  std::deque<uint32_t> responses_;  // that the network had no room for
  bool refused_ = false;
};

}  // namespace npu::timing
