// The vector instructions of the embedded Spike: every one that its library has a handler for.
#pragma once

#include <cstdint>
#include <vector>

namespace npu::engine {

struct VectorRow {
  const char* name;  // Spike's, such as "vadd_vv"
  uint32_t match;
  uint32_t mask;
};

// Built on first use; the order is that of Spike's encoding table. No two rows overlap.
const std::vector<VectorRow>& vector_table();

// Row of an instruction word, or -1.
int find_vector_row(uint32_t bits);

}  // namespace npu::engine
