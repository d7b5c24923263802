#include "reference_processor.h"

#include <riscv/cfg.h>
#include <riscv/encoding.h>
#include <riscv/mmu.h>
#include <riscv/processor.h>
#include <riscv/simif.h>

#include <cstring>
#include <iostream>
#include <map>

#include "faults.h"
#include "isa_generated.h"
#include "spike_isa.h"

namespace npu::engine {

namespace {

// Where traps go: not mapped, so that step() can be stopped there.
constexpr uint64_t kTrapVector = 0x100;

struct PagedMemory : simif_t {
  explicit PagedMemory(const cfg_t& config) : cfg(config) {}
  char* addr_to_mem(reg_t address) override {
    const auto page = pages.find(address / kPageBytes);
    return page == pages.end() ? nullptr : page->second + address % kPageBytes;
  }
  bool mmio_load(reg_t, size_t, uint8_t*) override { return false; }
  bool mmio_store(reg_t, size_t, const uint8_t*) override { return false; }
  void proc_reset(unsigned) override {}
  const cfg_t& get_cfg() const override { return cfg; }
  const std::map<size_t, processor_t*>& get_harts() const override { return harts; }
  const char* get_symbol(uint64_t) override { return nullptr; }

  const cfg_t& cfg;
  std::map<size_t, processor_t*> harts;
  std::map<uint64_t, char*> pages;
};

}  // namespace

struct ReferenceProcessor::State {
  cfg_t cfg;
  std::string isa;
  PagedMemory memory{cfg};
  std::unique_ptr<processor_t> processor;
  uint64_t slice_bytes = 0;
};

ReferenceProcessor::ReferenceProcessor(uint32_t vlen_bits, uint64_t slice_bytes)
    : state_(std::make_unique<State>()) {
  if (slice_bytes % kPageBytes != 0) throw std::invalid_argument("slice_bytes must be a multiple of a page");
  state_->isa = spike_isa_string(vlen_bits);
  state_->cfg.isa = state_->isa.c_str();
  state_->cfg.priv = "m";
  state_->cfg.hartids = {0};
  state_->slice_bytes = slice_bytes;
  state_->processor = make_spike(state_->cfg, state_->memory);
  state_->memory.harts[0] = state_->processor.get();
}

ReferenceProcessor::~ReferenceProcessor() = default;

ReferenceProcessor::Outcome ReferenceProcessor::run(const std::vector<Segment>& segments, uint64_t entry,
                                                    std::vector<uint8_t>& slice, uint64_t most_instructions) {
  processor_t& p = *state_->processor;
  PagedMemory& memory = state_->memory;
  if (slice.size() != state_->slice_bytes) throw std::invalid_argument("the slice has another size");
  memory.pages.clear();
  std::map<uint64_t, std::vector<char>> pages;
  for (const Segment& segment : segments)
    for (uint64_t i = 0; i < segment.bytes.size(); ++i) {
      std::vector<char>& page = pages[(segment.address + i) / kPageBytes];
      page.resize(kPageBytes);
      page[(segment.address + i) % kPageBytes] = static_cast<char>(segment.bytes[i]);
    }
  for (auto& [number, page] : pages) memory.pages[number] = page.data();
  for (uint64_t offset = 0; offset < slice.size(); offset += kPageBytes)
    memory.pages[(kScratchpadBase + offset) / kPageBytes] = reinterpret_cast<char*>(slice.data() + offset);

  p.reset();
  p.get_mmu()->flush_tlb();
  p.get_mmu()->flush_icache();
  state_t& s = *p.get_state();
  s.mstatus->write(s.mstatus->read() | MSTATUS_FS | MSTATUS_VS);
  s.mtvec->write(kTrapVector);
  for (uint32_t number = 1; number < 32; ++number) s.XPR.write(number, 0);
  for (uint32_t number = 0; number < 32; ++number) s.FPR.write(number, freg_t{});
  s.XPR.write(1, kReturnAddress);
  s.XPR.write(2, kScratchpadBase + slice.size());
  std::memset(p.VU.reg_file, 0, 32 * p.VU.vlenb);
  s.pc = entry;

  Outcome outcome;
  for (uint64_t i = 0; i < most_instructions; ++i) {
    if (s.pc == kReturnAddress) {
      outcome.finished = true;
      break;
    }
    p.step(1);
    if (s.pc == kTrapVector) {
      outcome.trapped = true;
      outcome.pc = s.mepc->read();
      outcome.cause = s.mcause->read();
      break;
    }
  }
  memory.pages.clear();
  p.get_mmu()->flush_tlb();
  return outcome;
}

std::vector<uint8_t> ReferenceProcessor::vector_registers() const {
  const auto* bytes = static_cast<const uint8_t*>(state_->processor->VU.reg_file);
  return std::vector<uint8_t>(bytes, bytes + 32 * state_->processor->VU.vlenb);
}

uint64_t ReferenceProcessor::integer_register(uint32_t number) const {
  return state_->processor->get_state()->XPR[number];
}

uint64_t ReferenceProcessor::float_register(uint32_t number) const {
  return state_->processor->get_state()->FPR[number].v[0];
}

}  // namespace npu::engine
