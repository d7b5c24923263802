#include "spike_isa.h"

#include <iostream>
#include <mutex>

namespace npu::engine {

std::string spike_isa_string(uint32_t vlen_bits) {
  // Not the drafts (dot products, 8-bit floats): their handlers check register groups incompletely and can
  // crash.
  return "rv64imafdv_zicsr_zifencei_zicclsm_zfh_zvfh_zfbfmin_zvfbfmin_zvfbfwma_zvbb_zvbc_zvkg_zvkned_zvknhb_"
         "zvksed_zvksh"
         "_zvl" +
         std::to_string(vlen_bits) + "b";
}

std::unique_ptr<processor_t> make_spike(const cfg_t& cfg, simif_t& memory) {
  // Spike fills tables in statics when a processor is made.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return std::make_unique<processor_t>(cfg.isa, cfg.priv, &cfg, &memory, 0, false, nullptr, std::cerr);
}

}  // namespace npu::engine
