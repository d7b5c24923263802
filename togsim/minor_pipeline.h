// A cycle-by-cycle model of gem5's MinorCPU, the machine of parameter set `gem5_minor`: fetch by lines with
// branch prediction, decode into micro-operations, in-order issue to pipelined units, in-order commit, a
// load-store queue with a store buffer, caches that always hit.
//
// In:  instructions in program order with their address, vector state and memory address.
// Out: cycles until the last one has committed.
// It serves the comparison with gem5 only (docs/timing_model.md, gem5_minor).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "branch_predictor.h"
#include "instruction_timing.h"
#include "lane_core_params.h"

namespace npu {

class MinorPipeline {
 public:
  // Throws std::invalid_argument for figures that describe no machine.
  MinorPipeline(const MinorParams& params, uint32_t vlen_bits);

  void retire(const InstructionTiming& instruction, const VectorState& state, uint64_t address, uint64_t pc);
  uint64_t finish();  // runs until everything has committed

 private:
  enum Unit : uint8_t { kAlu, kMul, kDiv, kVector, kMemory };
  static constexpr uint8_t kRegisters =
      104;  // 64 scalar, 32 vector, 8 temporaries of mask-producing instructions
  static constexpr uint8_t kVectorBase = 64, kTemporaryBase = 96, kNoRegister = 255;

  struct MicroOp {
    uint64_t seq = 0;
    Unit unit = kAlu;
    bool load = false, store = false;
    bool redirects = false;  // a mispredicted branch: the next instruction is fetched after its commit
    uint8_t dest = kNoRegister;
    uint8_t source_count = 0;
    std::array<uint8_t, 6> sources{};
    uint64_t address = 0;
    uint32_t bytes = 0;

    bool memory() const { return load || store; }
    void read(uint8_t reg) {
      if (reg != 0) sources[source_count++] = reg;
    }
  };
  struct Waiting {  // an instruction that has not been fetched yet
    uint64_t pc = 0;
    bool predicted_taken = false, mispredicted = false;
    std::vector<MicroOp> ops;
  };
  struct Line {
    uint64_t base = 0, epoch = 0, sent = 0;
  };
  struct InFlight {
    MicroOp op;
    uint32_t unit = 0;  // index into units_
    uint64_t wait_for =
        0;  // memory: the producer of its sources; it may go to memory once that has committed
    bool in_queue = false;  // memory: has left its unit for the load-store queue
  };
  struct FunctionalUnit {
    Unit kind = kAlu;
    uint32_t latency = 1, interval = 1, early = 0;
    bool stalled = false;
    uint64_t next_insert = 0;
    std::deque<uint64_t> slots;  // sequence numbers, 0 = bubble; front = just pushed, back = at its end
  };
  struct Register {
    uint32_t results = 0, unpredictable = 0;
    uint64_t ready = 0, writer = 0;
  };
  struct Access {  // an entry of the load-store queue
    uint64_t seq = 0, address = 0;
    uint32_t bytes = 0, packets = 1, sent = 0, answered = 0;
    bool store = false;

    bool complete() const { return answered == packets; }
  };
  struct Response {
    uint64_t visible = 0, seq = 0;
  };

  // minor_decode.cc
  std::vector<MicroOp> micro_ops(const InstructionTiming& instruction, const VectorState& state,
                                 uint64_t address) const;

  // minor_fetch.cc
  void predict_pending(uint64_t next_pc, const VectorState& next_state);
  void fetch_lines();
  void fetch_instructions();
  void decode();

  // minor_execute.cc
  void step();
  void execute();
  void commit();
  bool issue(MicroOp& op);
  void issue_all();
  void advance_units();
  bool sources_ready(const MicroOp& op, uint32_t early) const;
  InFlight& in_flight(uint64_t seq) { return in_flight_[seq - in_flight_.front().op.seq]; }

  // minor_memory.cc
  void receive_responses();
  void step_queue();
  void request(const MicroOp& op);
  void try_transfer();
  bool send_packet(Access& access);
  bool response_of(uint64_t seq) const;

  MinorParams params_;
  uint32_t vlen_bits_;
  BranchPredictor predictor_;
  uint64_t now_ = 0;
  uint64_t next_seq_ = 1;

  bool has_pending_ = false;  // the last instruction handed in: its successor is not known yet
  Waiting pending_;
  BranchKind pending_kind_ = BranchKind::None;
  VectorState pending_state_;
  uint32_t pending_size_ = 4;
  std::deque<Waiting> waiting_;

  uint64_t fetch_address_ = 0;
  bool fetching_ = false, wrong_path_ = false;
  uint64_t fetch1_epoch_ = 0, fetch2_epoch_ = 0;
  uint32_t reserved_lines_ = 0;
  bool redirect_ = false, flush_lines_ = false;
  uint64_t redirect_at_ = 0;
  std::deque<Line> fetches_, lines_;
  std::deque<Line> line_latch_;  // at most one
  std::vector<MicroOp> decode_latch_, execute_latch_;
  std::deque<std::vector<MicroOp>> decode_buffer_, execute_buffer_;
  size_t decode_index_ = 0, execute_index_ = 0;

  std::vector<FunctionalUnit> units_;
  std::array<Register, kRegisters> registers_{};
  std::deque<InFlight> in_flight_;
  std::deque<uint64_t> memory_in_units_;

  bool has_request_ = false;
  Access request_;
  std::deque<Access> transfers_, store_buffer_;
  std::vector<Response> responses_;
  uint32_t accesses_in_memory_ = 0, sent_in_cycle_ = 0;
  uint64_t last_commit_ = 0;
};

}  // namespace npu
