// How every processor_t of this project is made.
#pragma once

#include <riscv/processor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace npu::engine {

// RVV 1.0 and the ratified extensions of it that the embedded Spike has; misaligned accesses allowed, no
// compressed instructions.
std::string spike_isa_string(uint32_t vlen_bits);

// `cfg` and `memory` must outlive the processor, and so must the string that cfg.isa points to. Thread-safe.
std::unique_ptr<processor_t> make_spike(const cfg_t& cfg, simif_t& memory);

}  // namespace npu::engine
