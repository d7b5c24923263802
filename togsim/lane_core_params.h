// Figures of a lane core, from NpuConfig (units, defaults and sources there).
#pragma once

#include <cstdint>

namespace npu {

// gem5's MinorCPU: section `minor`.
struct MinorParams {
  uint32_t fetch_line_bytes = 64;
  uint32_t fetches_in_flight = 1;
  uint32_t fetch_buffer_lines = 2;
  uint32_t decode_width = 2;
  uint32_t decode_buffer_entries = 3;
  uint32_t issue_buffer_entries = 7;
  uint32_t issue_width = 2;
  uint32_t memory_issue_width = 1;
  uint32_t commit_width = 2;
  uint32_t memory_commit_width = 1;
  uint32_t branch_delay_cycles = 1;
  uint32_t int_units = 2;
  uint32_t int_cycles = 3;
  uint32_t int_early_cycles = 2;
  uint32_t mul_cycles = 3;
  uint32_t div_cycles = 9;
  uint32_t vector_units = 1;
  uint32_t vector_cycles = 6;
  uint32_t vector_early_cycles = 2;
  uint32_t memory_units = 1;
  uint32_t memory_cycles = 1;
  uint32_t memory_early_cycles = 1;
  uint32_t load_assumed_cycles = 2;
  uint32_t memory_width_bytes = 64;
  uint32_t cache_cycles = 1;
  uint32_t accesses_in_memory = 2;
  uint32_t transfer_entries = 2;
  uint32_t store_buffer_entries = 5;
  uint32_t stores_per_cycle = 2;
};

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

  uint32_t int_alu_cycles = 1;
  uint32_t int_mul_cycles = 3;
  uint32_t int_div_cycles = 20;
  uint32_t fp_alu_cycles = 4;
  uint32_t fp_move_cycles = 1;
  uint32_t fp_div_cycles = 20;
  uint32_t taken_branch_cycles = 1;
  uint32_t scalar_load_cycles = 2;
  uint32_t vector_config_cycles = 1;
  uint32_t vector_alu_cycles = 2;
  uint32_t vector_mul_cycles = 3;
  uint32_t vector_div_cycles_per_beat = 16;
  uint32_t vector_fp_cycles = 4;
  uint32_t vector_fp_div_cycles_per_beat = 8;
  uint32_t vector_permute_cycles = 2;
  uint32_t scratchpad_load_cycles = 2;
  uint32_t scratchpad_store_cycles = 1;
  uint32_t sfu_cycles = 8;
  uint32_t xlu_cycles = 8;
  uint32_t vector_units = 1;
  bool chaining = true;

  bool use_minor = false;  // gem5's MinorCPU instead of the scoreboard
  MinorParams minor;
};

}  // namespace npu
