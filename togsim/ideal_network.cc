// The network of whole transfers: a latency.
#include "network.h"

namespace npu::timing {
namespace {

class IdealNetwork final : public Network {
 public:
  IdealNetwork(EventQueue& events, uint64_t latency_cycles)
      : events_(events), latency_cycles_(latency_cycles) {}

  void send(uint32_t, bool, uint64_t, std::function<void()> arrived) override {
    events_.at(events_.now() + to_ticks(latency_cycles_), std::move(arrived));
  }
  uint64_t latency_cycles() const override { return latency_cycles_; }

 private:
  EventQueue& events_;
  uint64_t latency_cycles_;
};

}  // namespace

std::unique_ptr<Network> make_ideal_network(EventQueue& events, uint64_t latency_cycles) {
  return std::make_unique<IdealNetwork>(events, latency_cycles);
}

}  // namespace npu::timing
