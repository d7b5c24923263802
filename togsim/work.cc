// Counting what instructions do (work.h); cycles by cause are counted where the scoreboard issues.
#include "work.h"

#include "lane_core.h"

namespace npu {
namespace {

// Element type codes of pushes: docs/isa.md, Element types.
Work macs_of(uint8_t element_code) {
  switch (element_code) {
    case 0:
      return Work::MacsFloat32;
    case 1:
      return Work::MacsFloat16;
    case 2:
      return Work::MacsBfloat16;
    case 3:
    case 4:
      return Work::MacsFloat8;
    default:
      return Work::MacsInt8;
  }
}

// What an element of the class counts as.
Work kind_of(OpClass op) {
  switch (op) {
    case OpClass::VectorFp:
    case OpClass::VectorReduce:
    case OpClass::VectorReduceOrdered:
      return Work::VectorFloats;
    case OpClass::VectorDiv:
    case OpClass::VectorFpDiv:
      return Work::VectorDivides;
    case OpClass::VectorSlide:
    case OpClass::VectorGather:
    case OpClass::VectorToScalar:
      return Work::VectorPermutes;
    case OpClass::Sfu:
      return Work::SpecialFunctions;
    case OpClass::Xlu:
      return Work::LaneExchanges;
    default:
      return Work::VectorIntegers;
  }
}

}  // namespace

void LaneCore::count_work(const InstructionTiming& instruction, const VectorState& state) {
  const uint64_t lanes = params_.lanes;
  switch (instruction.op) {
    case OpClass::VectorLoad:
    case OpClass::VectorLoadElements:
    case OpClass::VectorStore:
    case OpClass::VectorStoreElements:
      work_[Work::ScratchpadBytes] += memory_bytes(instruction, state) * lanes;
      break;
    case OpClass::ArrayWeights:
    case OpClass::ArrayInputs:
      for (size_t i = 0; i < arrays_.size(); ++i) {
        if (!(instruction.arrays >> i & 1)) continue;
        if (instruction.op == OpClass::ArrayWeights) {
          work_.of_array(Work::ArrayWeightRows, i) += state.vl;
        } else {
          work_.of_array(Work::ArrayInputRows, i) += state.vl;
          work_[macs_of(instruction.element_code)] += state.vl * lanes * lanes;
        }
      }
      break;
    case OpClass::ArrayPop:
      break;
    case OpClass::VectorToScalar:
      work_[Work::VectorPermutes] += lanes;
      break;
    default:
      if (instruction.vector) {
        work_[kind_of(instruction.op)] += state.vl * lanes;
      } else {
        ++work_[Work::ScalarInstructions];
      }
  }
}

WorkCounts LaneCore::work(bool drained) const {
  WorkCounts work = work_;
  if (minor_) return work;
  work[Work::IssueCycles] += issued_in_cycle_ > 0;
  if (drained) work[Work::DrainCycles] += drain() - elapsed();
  return work;
}

}  // namespace npu
