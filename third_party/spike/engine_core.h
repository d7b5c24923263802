// State of one core and the units that work on it. Internal to the engine: every .cc file of it implements
// one unit.
#pragma once

#include <riscv/cfg.h>
#include <riscv/mmu.h>
#include <riscv/processor.h>
#include <riscv/simif.h>

#include <algorithm>
#include <bitset>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "descriptor.h"
#include "dma_plan.h"
#include "isa_generated.h"
#include "machine.h"
#include "native/bodies.h"
#include "native/instruction.h"
#include "scratchpad.h"

namespace npu::engine {

enum class Kind : uint8_t {
  Undecoded,
  Scalar,
  ScalarLoad,
  ScalarStore,
  Csr,
  VectorConfig,
  VectorMemory,
  VectorArithmetic,
  VectorToScalar,
  Custom,
};

enum class CountClass : uint8_t { Scalar, Vector, Dma, Array };

inline constexpr uint32_t kMaxVregBytes = 512;  // VLEN 4096
inline constexpr uint32_t kRowMargin = 64;      // bytes around a row that a body may read

// A vector memory instruction's static fields.
struct VectorAccess {
  enum class Addressing : uint8_t { Unit, Strided, Indexed, Whole, Mask };
  Addressing addressing = Addressing::Unit;
  uint8_t width_bytes = 1;  // EEW of data, or of the index where Indexed
  uint8_t fields = 1;       // segment fields; registers where Whole
  bool store = false;
  bool masked = false;
};

// An instruction, decoded once per pc.
struct Decoded {
  Kind kind = Kind::Undecoded;
  CountClass count = CountClass::Scalar;
  bool writes_sp = false;
  bool control = false;  // may jump
  uint8_t rd = 0, rs1 = 0, rs2 = 0;
  uint16_t tile = 0;  // 1 + number of the tile function that starts here
  int16_t row = -1;   // in the table of vector instructions
  insn_t insn{0};
  insn_func_t spike = nullptr;
  const CustomRow* custom = nullptr;
  VectorAccess access;
  NativeInstruction native;
  InstructionTiming timing;

  uint32_t bits() const {
    insn_t copy = insn;
    return static_cast<uint32_t>(copy.bits());
  }
  bool masked() const { return (bits() >> 25 & 1) == 0; }
};

// Spike's view of the outside: code can be fetched, nothing else is memory (the engine does all accesses
// itself).
class FetchOnlyMemory : public simif_t {
 public:
  explicit FetchOnlyMemory(const cfg_t& cfg) : cfg_(cfg) {}
  char* addr_to_mem(reg_t address) override;
  bool mmio_load(reg_t, size_t, uint8_t*) override { return false; }
  bool mmio_store(reg_t, size_t, const uint8_t*) override { return false; }
  void proc_reset(unsigned) override {}
  const cfg_t& get_cfg() const override { return cfg_; }
  const std::map<size_t, processor_t*>& get_harts() const override { return harts; }
  const char* get_symbol(uint64_t) override { return nullptr; }

  std::map<size_t, processor_t*> harts;
  ProgramImage* program = nullptr;
  bool fetching = false;

 private:
  const cfg_t& cfg_;
};

// A transfer between its start and its wait.
struct PendingTransfer {
  uint64_t start_pc = 0;
  uint32_t start_bits = 0;
  bool load = false;
  TransferPlan plan;
};

class Core {
 public:
  explicit Core(const MachineParams& params);
  ~Core();

  void load(ProgramImage image);
  LaunchResult launch(const LaunchRequest& request, const std::function<bool()>& poll);

  // --- state that all units share ---
  const MachineParams params;
  const uint32_t lanes;
  const uint32_t vreg_bytes;  // of one lane's register
  Scratchpad scratchpad;
  InFlight in_flight;
  Arrays arrays;
  ProgramImage program;
  std::bitset<512> executed;  // rows of the table of vector instructions, see decode.cc

  uint8_t* vreg(uint32_t number, uint32_t lane) { return vregs_ + number * vreg_stride_ + lane * vreg_bytes; }
  reg_t x(uint32_t number) const { return state_->XPR[number]; }
  processor_t& spike() { return *processor_; }

 private:
  friend class Machine;

  // machine.cc
  void reset_for_launch(const LaunchRequest& request);
  std::string disassemble(uint32_t bits) const;

  // decode.cc
  Decoded& decoded(uint64_t pc);
  void decode(Decoded& entry, uint64_t pc);
  static void classify(Decoded& entry);

  // loop.cc
  template <bool kTiming>
  void run(uint64_t pc);
  uint64_t execute(Decoded& entry, uint64_t pc);
  uint64_t run_spike(const Decoded& entry, uint64_t pc);
  void check_stack();
  void poll_and_check_budget();
  void refresh_vector_config();

  // trace_recording.cc
  bool enter_tile(uint32_t tile);  // false: the call is skipped
  void leave_tile();
  void flush_scalar_cycles();
  void retire(const Decoded& entry, uint64_t pc);
  void record_wait(uint32_t tag);
  void record_transfer(const TransferPlan& plan, uint64_t descriptor_address, uint32_t tag);

  // scalar_memory.cc
  void scalar_load(const Decoded& entry);
  void scalar_store(const Decoded& entry);
  uint64_t stack_offset(const Decoded& entry, uint64_t address, uint32_t bytes, bool store) const;
  void check_csr(const Decoded& entry);

  // vector_lanes.cc
  void run_lanes(const Decoded& entry, uint64_t pc);
  void run_lanes_to_scalar(const Decoded& entry, uint64_t pc);

  // vector_native.cc, vector_native_width.cc: false where Spike's handler has to decide
  bool run_native(const Decoded& entry);
  bool aligned_group(uint32_t number) const;
  uint64_t scalar_operand(const Decoded& entry) const;
  void merge_row(uint8_t* to, const uint8_t* from, bool masked, uint32_t first_element, uint32_t count);
  bool native_elementwise(const Decoded& entry);
  bool native_compare(const Decoded& entry);
  void place_bits(uint32_t first, uint32_t per_register);
  void write_mask(const Decoded& entry, uint32_t bits_bytes);
  bool native_merge(const Decoded& entry);
  bool native_mask_logic(const Decoded& entry);
  bool move_registers(const Decoded& entry);
  bool native_identity(const Decoded& entry);
  bool native_widen(const Decoded& entry);
  bool native_narrow(const Decoded& entry);
  bool native_slide(const Decoded& entry);
  bool native_splat(const Decoded& entry);

  // vector_memory.cc
  void vector_memory(const Decoded& entry);
  void vector_contiguous(const Decoded& entry, uint64_t address, uint32_t first, uint32_t end);
  template <typename Element>
  void vector_regular(const Decoded& entry, uint32_t first, uint32_t group);
  template <typename Element>
  void vector_indexed(const Decoded& entry, uint32_t first, uint32_t group);
  const uint8_t* vector_element(const Decoded& entry, uint64_t address, uint32_t bytes, uint32_t lane);
  [[noreturn]] void vector_address_fault(const Decoded& entry, uint64_t address, uint32_t bytes,
                                         int32_t lane);
  void check_in_flight(uint64_t offset, uint64_t bytes, bool write, int32_t lane);
  [[noreturn]] void in_flight_fault(uint64_t offset, uint64_t bytes, bool write, int32_t lane);

  // custom.cc
  void custom(const Decoded& entry, uint64_t pc);
  void require_vector_operands(const Decoded& entry, bool writes_vd, bool reads_vs2) const;
  // body(register offset in the group, bytes of a lane's part): the registers that hold the vl elements.
  template <typename Body>
  void for_each_register(Body body) const {
    const uint32_t bytes = vl_ * sew_bytes_;
    for (uint32_t done = 0; done < bytes; done += vreg_bytes)
      body(done / vreg_bytes, std::min(vreg_bytes, bytes - done));
  }
  void special_function(const Decoded& entry);
  void exchange_lanes(const Decoded& entry);
  void lane_numbers(const Decoded& entry);
  void push_to_array(const Decoded& entry);
  void pop_from_array(const Decoded& entry);

  // custom_arrays.cc
  Dtype array_dtype(const Decoded& entry, bool result) const;
  uint8_t* const* word_lanes(uint32_t per_register);
  void widen_row(Dtype dtype, const uint8_t* row);
  void narrow_row(Dtype dtype, uint8_t* row) const;

  // dma.cc
  using DmaSet = std::array<uint64_t, kSetIndexTile + kMaxIndexTiles>;
  void dma_set(const Decoded& entry);
  void dma_start(const Decoded& entry, uint64_t pc);
  void dma_wait(const Decoded& entry);
  const TransferDescriptor& descriptor_at(uint64_t address);
  void finish_launch();

  // dma_check.cc
  void place_tile(TransferPlan& plan, uint64_t set_address);
  std::array<uint64_t, kMaxIndexTiles> place_index_tiles(TransferPlan& plan, const DmaSet& set);
  static void normalise(std::vector<InFlight::Range>& ranges);
  void check_plan_in_flight(const TransferPlan& plan);
  void check_dram_side(TransferPlan& plan);
  void check_local_side(TransferPlan& plan);

  cfg_t cfg_;
  std::string isa_;
  FetchOnlyMemory memory_;
  std::unique_ptr<processor_t> processor_;
  state_t* state_ = nullptr;

  uint8_t* vreg_memory_ = nullptr;
  uint8_t* vregs_ = nullptr;  // register 0, kRowMargin into the memory
  uint64_t vreg_stride_ = 0;

  std::vector<Decoded> decoded_;
  std::map<uint64_t, TransferDescriptor> descriptors_;

  // vtype as it stands, refreshed by every instruction that may change it
  uint32_t vl_ = 0;
  uint32_t sew_bytes_ = 1;
  uint32_t group_registers_ = 1;  // registers of a group at this LMUL, at least 1
  float lmul_ = 1;
  bool vill_ = true;
  bool round_to_nearest_ = true;

  // Rows (lanes * vreg_bytes) that native instructions work in.
  const Bodies* bodies_ = nullptr;
  std::vector<uint8_t> row_, merged_, packed_, bits_;
  std::vector<uint8_t> zero_row_;  // with kRowMargin on either side

  std::vector<uint32_t> array_words_;  // staging of a push or pop, [element][lane]
  std::vector<uint32_t> word_row_;     // one register of it, [lane][element]
  std::vector<uint8_t*> word_lanes_;

  // DMA
  DmaSet dma_set_ = {};
  std::array<std::vector<PendingTransfer>, kTags> pending_;
  size_t pending_count_ = 0;

  // one launch
  const LaunchRequest* request_ = nullptr;
  const std::function<bool()>* poll_ = nullptr;
  LaunchResult result_;
  std::array<uint64_t, 4> counts_ = {};
  uint64_t executed_instructions_ = 0;
  uint64_t next_check_ = 0;
  std::chrono::steady_clock::time_point next_poll_;
  uint64_t lowest_sp_ = 0;
  uint64_t stack_begin_ = 0;  // kernel addresses
  uint64_t slice_end_ = 0;
  LaneCore lane_core_;
  uint32_t current_tile_ = 0;  // 1 + number, 0 outside
  uint64_t tile_return_pc_ = 0;
  bool tile_measured_ = false;  // the current tile function runs under the scoreboard
  bool scratchpad_zeroed_ = false;
  LatencyKey tile_key_;
};

// Offset of a kernel address in a lane's slice, if [address, address + bytes) lies in it; else UINT64_MAX.
inline uint64_t slice_offset(uint64_t address, uint64_t bytes, uint64_t slice_bytes) {
  const uint64_t offset = address - kScratchpadBase;
  return offset < slice_bytes && bytes <= slice_bytes - offset ? offset : UINT64_MAX;
}

}  // namespace npu::engine
