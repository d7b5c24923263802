// Fields of an instruction's bits, as the decoders name them.
#pragma once

#include <cstdint>

#include "instruction_timing.h"

namespace npu {

inline uint32_t field(uint32_t bits, int low, int width) { return (bits >> low) & ((1u << width) - 1); }
inline uint32_t rd(uint32_t bits) { return field(bits, 7, 5); }
inline uint32_t rs1(uint32_t bits) { return field(bits, 15, 5); }
inline uint32_t rs2(uint32_t bits) { return field(bits, 20, 5); }
inline uint32_t rs3(uint32_t bits) { return field(bits, 27, 5); }
inline uint32_t funct3(uint32_t bits) { return field(bits, 12, 3); }
inline uint8_t fp(uint32_t reg) { return static_cast<uint8_t>(32 + reg); }
inline uint8_t x(uint32_t reg) { return static_cast<uint8_t>(reg); }

inline void source(InstructionTiming& t, uint32_t reg, OperandShape shape) {
  t.vector_sources[t.vector_source_count++] = {static_cast<uint8_t>(reg), shape};
}
inline void dest(InstructionTiming& t, uint32_t reg, OperandShape shape) {
  t.vector_dest = {static_cast<uint8_t>(reg), shape};
}

// vector_decode.cc
void decode_vector_memory(InstructionTiming& t, uint32_t bits, bool store);  // opcodes 0x07 and 0x27
void decode_op_v(InstructionTiming& t, uint32_t bits);                       // opcode 0x57

}  // namespace npu
