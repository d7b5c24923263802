// One lane by Spike alone: processor_t with plain memory and its own step(). What the engine is tested
// against.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "program_image.h"

namespace npu::engine {

class ReferenceProcessor {
 public:
  ReferenceProcessor(uint32_t vlen_bits, uint64_t slice_bytes);
  ~ReferenceProcessor();
  ReferenceProcessor(const ReferenceProcessor&) = delete;
  ReferenceProcessor& operator=(const ReferenceProcessor&) = delete;

  struct Outcome {
    bool trapped = false;
    uint64_t pc = 0;  // of the instruction that trapped
    uint64_t cause = 0;
    bool finished = false;  // reached the return address
  };
  // Memory is what the program says and `slice` at the scratchpad window. Registers as at a launch.
  Outcome run(const std::vector<Segment>& segments, uint64_t entry, std::vector<uint8_t>& slice,
              uint64_t most_instructions);

  std::vector<uint8_t> vector_registers() const;  // all 32, in order
  uint64_t integer_register(uint32_t number) const;
  uint64_t float_register(uint32_t number) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace npu::engine
