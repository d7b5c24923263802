// A DRAM channel of fast fidelity: requests are pushed with the moment of their arrival, and served later, a
// stretch of time at once and without events. Whoever pushes knows that nothing earlier can still come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "channel.h"

namespace npu::timing {

struct FlowRequest {
  Tick at = 0;  // arrival
  uint64_t row = 0;
  uint32_t job = 0;  // the engine's name for it
  uint16_t core = 0;
  uint8_t bank = 0;
  bool store = false;
};

struct FlowAnswer {
  Tick done = 0;  // a read's last data are on the bus, or a write is in the queue
  uint32_t job = 0;
  uint16_t core = 0;
  bool store = false;
};

class FlowChannel {
 public:
  virtual ~FlowChannel() = default;
  void push(const FlowRequest& request) {
    ordered_ &= arrivals_.empty() || arrivals_.back().at <= request.at;
    arrivals_.push_back(request);
  }
  // Serves what can be served before `until`, before which nothing is pushed any more.
  virtual void advance(Tick until, std::vector<FlowAnswer>& answers) = 0;
  virtual bool idle() const = 0;     // nothing left to serve
  virtual Tick written() const = 0;  // when the last write's data were on the bus
  virtual ComponentStats stats(Tick end) = 0;

 protected:
  // Requests in order of their arrival from here on; those of one moment in that of their pushes.
  void order();
  void forget();  // those that are taken

  std::vector<FlowRequest> arrivals_;
  size_t next_ = 0;  // the first one not taken
  bool ordered_ = true;
};

std::unique_ptr<FlowChannel> make_banked_flow_channel(std::string name, const BankedParams& params);
// A bandwidth and nothing else.
std::unique_ptr<FlowChannel> make_ideal_flow_channel(std::string name, Tick burst_ticks);

}  // namespace npu::timing
