// Which integer arguments a function reads: what its latency can depend on.
#pragma once

#include <cstdint>
#include <span>

namespace npu::engine {

// Bit i stands for argument register a<i>. `code` is the function's words from its entry on; code that the
// analysis cannot follow (calls, computed jumps other than returns, jumps out of the function) counts as
// reading every argument.
uint8_t live_arguments(std::span<const uint32_t> code);

}  // namespace npu::engine
