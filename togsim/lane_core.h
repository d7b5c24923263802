// The lane core's pipeline: cycles of an instruction stream, instruction by instruction as the engine
// executes it.
//
// In:  per program counter one decoded `InstructionTiming`; per execution the vector state and the address.
// Out: cycles since `begin()`.
// The lanes run in lock-step, so one lane's registers and ports stand for all. Formulas:
// docs/timing_model.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "instruction_timing.h"
#include "lane_core_params.h"
#include "work.h"

namespace npu {

class MinorPipeline;

class LaneCore {
 public:
  // Throws std::invalid_argument for figures that describe no machine.
  explicit LaneCore(const LaneCoreParams& params);
  ~LaneCore();

  void begin();  // pipeline empty, cycle 0
  // `pc` and the memory address count for gem5's core only, beyond the address's alignment.
  void retire(const InstructionTiming& instruction, const VectorState& state, uint64_t address,
              uint64_t pc = 0);
  // The next instruction is not the following one (taken branch, jump, call, return); after its retire().
  void taken_branch();
  uint64_t elapsed() const;  // cycles since begin() until the last instruction issued
  uint64_t drain() const;    // ... until everything issued is complete
  // What was done since begin(), with the cycles of `elapsed()`, or of `drain()` if `drained`, by cause.
  // gem5's core has no causes.
  WorkCounts work(bool drained) const;

 private:
  struct ClassTiming {
    uint8_t unit = 0;
    uint32_t latency = 1;             // issue to first use of the first beat's result
    uint32_t cycles_per_beat = 1;     // a beat is one datapath width
    uint32_t elements_per_cycle = 0;  // 0: counted in beats
  };
  // Several identical copies of a functional unit, each busy until a cycle.
  struct Unit {
    uint32_t copies = 0;  // 0: as many as are issued
    std::array<uint64_t, 8> free{};
  };
  struct VectorRegister {
    uint64_t ready = 0;  // first cycle in which its last beat can be read
    uint64_t span = 1;   // beats over which it became ready
    uint64_t read = 0;   // first cycle in which no earlier instruction still reads it
  };
  // An operand of an execution: register i of `count` is used in the beats [start(i), end(i)) of the
  // instruction's.
  struct Use {
    uint32_t first = 0, count = 0;
    uint32_t step = 0, rest = 0;  // busy = count * step + rest
    bool at_once = false;         // needed or written as a whole

    uint32_t start(uint32_t i) const { return i * step + (rest == 0 ? 0 : i * rest / count); }
    uint32_t end(uint32_t i) const {
      const uint32_t from = start(i), to = start(i + 1);
      return to > from ? to : from + 1;
    }
  };
  struct Array {
    uint64_t weights_port_free = 0;  // the next push of weights can begin
    uint64_t weights_taken = 0;      // all rows pushed so far have left the queue
    uint64_t weights_loaded = 0;     // the matrix pushed last is complete in the shadow set
    uint64_t shadow_free = 0;        // the matrix before it became the active one
    bool shadow_waits = false;       // no input has been pushed since
    uint64_t inputs_free = 0;        // all inputs pushed so far have been taken
    struct Rows {
      uint64_t ready;  // cycle in which the first row can be popped
      uint64_t rows;
    };
    std::deque<Rows> results;
  };

  void set_class(OpClass op, uint8_t unit, uint32_t latency, uint32_t per_beat = 1, uint32_t elements = 0);
  uint64_t earliest() const;
  // Until when an issue had to wait, by cause, one after the other: each at least the one before.
  struct Waits {
    uint64_t scalar, vector, unit;  // the rest, until the issue, is the arrays'
  };
  void issue_at(uint64_t cycle, const Waits& waits);
  void count_work(const InstructionTiming& instruction, const VectorState& state);  // work.cc
  uint64_t take_unit(const ClassTiming& timing, uint64_t cycle, uint64_t busy);

  // vector_timing.cc
  void retire_vector(const InstructionTiming& instruction, const VectorState& state, uint64_t address);
  void retire_empty(const InstructionTiming& instruction, const Waits& waits);
  uint32_t occupancy(const InstructionTiming& instruction, const VectorState& state, uint64_t address) const;
  uint64_t memory_bytes(const InstructionTiming& instruction, const VectorState& state) const;  // per lane
  uint32_t memory_cycles(const InstructionTiming& instruction, const VectorState& state,
                         uint64_t address) const;
  uint32_t result_latency(const InstructionTiming& instruction, const VectorState& state) const;
  Use use_of(const InstructionTiming& instruction, const VectorOperand& operand, const VectorState& state,
             uint32_t busy, bool data) const;
  uint64_t after_source(const Use& use, bool chained, uint64_t cycle) const;
  uint64_t after_dest(const Use& use, uint32_t latency, uint64_t cycle) const;

  // array_timing.cc
  uint64_t array_issue(const InstructionTiming& instruction, const VectorState& state, uint64_t cycle) const;
  uint64_t array_commit(const InstructionTiming& instruction, const VectorState& state, uint64_t cycle);
  void reset_arrays();

  LaneCoreParams params_;
  std::array<ClassTiming, static_cast<size_t>(OpClass::Count)> classes_{};
  std::vector<Unit> units_;
  int vlen_shift_ = 0, datapath_shift_ = 0, port_shift_ = 0;  // log2 of bits, bits, bytes
  uint64_t begin_cycle_ = 0;  // time goes on over begin(): everything older is complete by then
  uint64_t issue_cycle_ = 0;
  uint32_t issued_in_cycle_ = 0;
  uint64_t config_ready_ = 0;
  uint64_t last_done_ = 0;
  std::array<uint64_t, 64> scalar_ready_{};
  std::array<VectorRegister, 32> vector_{};
  std::vector<Array> arrays_;
  bool arrays_used_ = false;
  WorkCounts work_;
  std::unique_ptr<MinorPipeline> minor_;  // takes over from the scoreboard where the parameters say so
};

}  // namespace npu
