// Making a core, loading programs, and the frame of a launch.
#include "machine.h"

#include <riscv/disasm.h>
#include <riscv/encoding.h>
#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "engine_core.h"
#include "spike_isa.h"
#include "vector_table.h"

namespace npu::engine {

namespace {

void require(bool sound, const char* why) {
  if (!sound) throw std::invalid_argument(why);
}

// Default floating-point environment of the host while kernels run: round to nearest, denormals kept, no
// traps.
class HostFloatEnvironment {
 public:
  HostFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~HostFloatEnvironment() { _mm_setcsr(saved_); }
  HostFloatEnvironment(const HostFloatEnvironment&) = delete;
  HostFloatEnvironment& operator=(const HostFloatEnvironment&) = delete;

 private:
  uint32_t saved_;
};

const MachineParams& checked(const MachineParams& params) {
  require(params.lanes >= 2 && params.lanes <= 1024 && std::has_single_bit(params.lanes),
          "lanes must be a power of two from 2 to 1024");
  require(params.vlen_bits >= 128 && params.vlen_bits / 8 <= kMaxVregBytes &&
              std::has_single_bit(params.vlen_bits),
          "vlen_bits must be a power of two from 128 to 4096");
  require(params.slice_bytes % 64 == 0 && params.slice_bytes <= (UINT64_C(1) << 28),
          "scratchpad_bytes_per_lane must be a multiple of 64, at most 256 MiB");
  require(params.stack_reserve_bytes % 32 == 0 && params.stack_reserve_bytes < params.slice_bytes,
          "stack_reserve_bytes must be a multiple of 32 below scratchpad_bytes_per_lane");
  require(params.array_count >= 1 && params.array_count <= 5, "there are 1 to 5 arrays");
  require(params.array_queue_entries >= 1, "array queues hold at least 1 entry");
  return params;
}

}  // namespace

char* FetchOnlyMemory::addr_to_mem(reg_t address) {
  if (!fetching || program == nullptr) return nullptr;
  char* page = program->text_page(address);
  return page == nullptr ? nullptr : page + address % kPageBytes;
}

Core::Core(const MachineParams& machine_params)
    : params(checked(machine_params)),
      lanes(params.lanes),
      vreg_bytes(params.vlen_bits / 8),
      scratchpad(params.lanes, params.slice_bytes),
      in_flight(params.slice_bytes),
      arrays(params.array_count, params.lanes, params.array_queue_entries, bodies(params.body_level)),
      memory_(cfg_),
      lane_core_(params.timing) {
  isa_ = spike_isa_string(params.vlen_bits);
  cfg_.isa = isa_.c_str();
  cfg_.priv = "m";
  cfg_.hartids = {0};
  processor_ = make_spike(cfg_, memory_);
  vector_table();
  memory_.harts[0] = processor_.get();
  memory_.program = &program;
  state_ = processor_->get_state();
  const size_t row_bytes = size_t{lanes} * vreg_bytes;
  vreg_stride_ = row_bytes + kRowMargin;
  vreg_memory_ = static_cast<uint8_t*>(std::aligned_alloc(64, 32 * vreg_stride_ + kRowMargin));
  if (vreg_memory_ == nullptr) throw std::bad_alloc();
  vregs_ = vreg_memory_ + kRowMargin;
  for (auto* row : {&row_, &merged_, &packed_, &bits_}) row->assign(row_bytes + kRowMargin, 0);
  zero_row_.assign(row_bytes + 2 * kRowMargin, 0);
  bodies_ = &bodies(params.body_level);
  stack_begin_ = kScratchpadBase + params.slice_bytes - params.stack_reserve_bytes;
  slice_end_ = kScratchpadBase + params.slice_bytes;
}

Core::~Core() { std::free(vreg_memory_); }

void Core::load(ProgramImage image) {
  program = std::move(image);
  decoded_.assign((program.text_end() - program.text_begin()) / 4, Decoded{});
  descriptors_.clear();
  processor_->get_mmu()->flush_tlb();
  processor_->get_mmu()->flush_icache();
}

void Core::reset_for_launch(const LaunchRequest& request) {
  processor_->reset();
  state_->mstatus->write(state_->mstatus->read() | MSTATUS_FS | MSTATUS_VS);
  for (uint32_t number = 1; number < 32; ++number) state_->XPR.write(number, 0);
  for (uint32_t number = 0; number < 32; ++number) state_->FPR.write(number, freg_t{});
  state_->XPR.write(1, kReturnAddress);
  state_->XPR.write(2, slice_end_);
  state_->XPR.write(10, request.core);
  state_->XPR.write(11, request.cores);
  refresh_vector_config();
  std::memset(vreg_memory_, 0, 32 * vreg_stride_ + kRowMargin);
  const bool timing_only = request.mode == Mode::Timing;
  // All bytes set is a NaN in every float type: reading what nothing wrote shows in the results.
  if (!timing_only) scratchpad.reset(0xff);
  arrays.reset();
  in_flight.clear();
  for (auto& transfers : pending_) transfers.clear();
  pending_count_ = 0;
  dma_set_ = {};
  result_ = {};
  counts_ = {};
  executed_instructions_ = next_check_ = 0;
  next_poll_ = std::chrono::steady_clock::now();
  lowest_sp_ = slice_end_;
  current_tile_ = 0;
  tile_measured_ = false;
  scratchpad_zeroed_ = false;
}

LaunchResult Core::launch(const LaunchRequest& request, const std::function<bool()>& poll) {
  if (request.mode != Mode::Timing)
    for (const Slot& slot : request.slots)
      require(slot.data != nullptr || slot.end_byte <= slot.lowest_byte, "a slot with elements has no data");
  const HostFloatEnvironment environment;
  reset_for_launch(request);
  request_ = &request;
  poll_ = &poll;
  lane_core_.begin();
  if (request.mode == Mode::Functional)
    run<false>(request.entry);
  else
    run<true>(request.entry);
  finish_launch();
  if (request.mode != Mode::Functional) flush_scalar_cycles();
  result_.stack_bytes = slice_end_ - lowest_sp_;
  result_.counts = {counts_[0], counts_[1], counts_[2], counts_[3]};
  return std::move(result_);
}

std::string Core::disassemble(uint32_t bits) const {
  if ((bits & 0x7f) == 0x5b)
    for (const CustomRow& row : kCustomRows)
      if ((bits & row.mask) == row.match)
        return std::string(row.name) + " rd=" + std::to_string(bits >> 7 & 31) +
               " rs1=" + std::to_string(bits >> 15 & 31) + " rs2=" + std::to_string(bits >> 20 & 31);
  return processor_->get_disassembler()->disassemble(insn_t(bits));
}

Machine::Machine(const MachineParams& params) : core_(std::make_unique<Core>(params)) {}
Machine::~Machine() = default;

const MachineParams& Machine::params() const { return core_->params; }
void Machine::load(ProgramImage program) { core_->load(std::move(program)); }
LaunchResult Machine::launch(const LaunchRequest& request, const std::function<bool()>& poll) {
  return core_->launch(request, poll);
}
std::string Machine::disassemble(uint32_t bits) const { return core_->disassemble(bits); }
uint8_t* Machine::slice(uint32_t lane) { return core_->scratchpad.lane(lane); }
uint8_t* Machine::vector_register(uint32_t number, uint32_t lane) { return core_->vreg(number, lane); }

std::vector<std::string> Machine::executed_vector_instructions() const {
  std::vector<std::string> names;
  for (size_t row = 0; row < vector_table().size(); ++row)
    if (core_->executed.test(row)) names.emplace_back(vector_table()[row].name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace npu::engine
