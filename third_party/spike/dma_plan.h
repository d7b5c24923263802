// What a transfer will do, worked out at its start: which elements exist (as rectangular blocks), which bytes
// of the scratchpad it names, and what it reads or writes in DRAM.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "descriptor.h"
#include "scratchpad.h"
#include "trace.h"

namespace npu::engine {

// Elements lo[a] <= i[a] < lo[a] + n[a], all of which exist, at the descriptor's place plus `dram_extra`
// elements.
struct Block {
  std::array<uint32_t, kMaxRank> lo = {};
  std::array<uint32_t, kMaxRank> n = {};
  int64_t dram_first = 0;  // DRAM element of index lo (all offsets, origins and indices applied)
};

struct TransferPlan {
  TransferDescriptor descriptor;
  std::array<int64_t, kMaxRank> origin = {};
  uint64_t spad_offset = 0;              // byte offset of cell 0 in the slice
  std::vector<Block> blocks;             // in the order in which a store runs over them
  int64_t existing = 0;                  // elements in blocks
  std::vector<InFlight::Range> cells;    // bytes of a lane's slice that the tile covers, sorted
  std::vector<InFlight::Range> sources;  // bytes of index tiles and of a local transfer's source, sorted
};

// Reads index tiles: the index at `point` (positions within the axes), already wrapped and checked.
class IndexSource {
 public:
  virtual ~IndexSource() = default;
  virtual int64_t index(uint32_t tile, const std::array<uint32_t, kMaxRank>& point) = 0;
};

// Fills plan.blocks and plan.existing from plan.descriptor and plan.origin. Throws Fault (bad-descriptor on
// overflow).
void plan_blocks(TransferPlan& plan, IndexSource& indices);

// Byte ranges that a nest of (count, stride in bytes) of elements covers from `base` on, merged where no
// whole in-flight granule lies between, sorted. `low` and `high` (exclusive) bound them. False if they leave
// [0, limit).
struct StridedAxis {
  int64_t count;
  int64_t stride_bytes;
};
bool covered_ranges(uint64_t base, std::vector<StridedAxis> axes, uint32_t element_bytes, uint64_t limit,
                    std::vector<InFlight::Range>& ranges);

// The DRAM side of a block as strided runs: contiguous axes merged, multicast axes dropped.
StridedRuns block_runs(const TransferDescriptor& descriptor, const Block& block, uint64_t dram_address);

}  // namespace npu::engine
