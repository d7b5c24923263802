// The lane core's pipeline: cycles of an instruction stream, instruction by instruction as the engine executes it.
#pragma once

#include <cstdint>

namespace npu {

// Figures of the lane core, from NpuConfig (units there).
struct LaneCoreParams {
  uint32_t lanes = 128;
  uint32_t vlen_bits = 256;
  uint32_t datapath_bits = 256;
  uint32_t issue_width = 2;
  uint32_t load_ports = 2;
  uint32_t store_ports = 1;
  uint32_t port_bytes = 32;
  uint32_t sfu_elements_per_cycle = 1;
  uint32_t array_count = 2;
  uint32_t array_queue_entries = 256;
};

// What timing needs of an instruction and that does not change between executions: decoded once per pc from its bits.
struct InstructionTiming {
  uint8_t unit = 0;             // functional unit, an enum of lane_core.cc
  uint8_t scalar_sources[3] = {0, 0, 0};
  uint8_t scalar_dest = 0;      // 0 = none (x0); floating-point registers are 32..63
  uint8_t vector_sources[4] = {255, 255, 255, 255};  // 255 = none; includes v0 when masked and vd when read
  uint8_t vector_dest = 255;
  uint8_t element_bits = 0;     // memory: EEW of the access; else 0 = SEW
  uint8_t widening = 0;         // 1: destination EEW = 2 x SEW; 2: source EEW = 2 x SEW (narrowing)
};

// What an execution adds.
struct VectorState {
  uint32_t vl = 0;
  uint8_t sew_bits = 0;
  float lmul = 1;
};

class LaneCore {
 public:
  explicit LaneCore(const LaneCoreParams& params);

  static InstructionTiming decode(uint32_t bits);

  void begin();  // pipeline empty, cycle 0
  void retire(const InstructionTiming& instruction, const VectorState& state, uint64_t address);
  void taken_branch();
  uint64_t elapsed() const;  // cycles since begin() until the last instruction issued
  uint64_t drain() const;    // ... until everything issued is complete

 private:
  struct State;
  LaneCoreParams params_;
  uint64_t issue_cycle_ = 0;
  uint32_t issued_in_cycle_ = 0;
  uint64_t scalar_ready_[64] = {};
  uint64_t vector_ready_[32] = {};
  uint64_t unit_free_[16] = {};
  uint64_t last_done_ = 0;
};

}  // namespace npu
