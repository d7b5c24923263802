// Walking the elements of a block in listed order, as runs along its innermost axis.
#pragma once

#include <array>
#include <cstdint>

#include "dma_plan.h"

namespace npu::engine {

// A run along the innermost axis of a block.
struct Run {
  int64_t dram;         // DRAM element of the first
  int64_t dram_stride;  // elements
  int64_t count;
  int64_t cell;         // elements from cell 0 of the lane, without the slot
  int64_t cell_stride;  // elements; 0 where the run goes over lanes
  int64_t c;            // index in the lane group of the first
  bool over_lanes;      // c advances by 1 per element
};

// Calls visit(run) for the runs of a block, in listed order.
template <typename Visit>
class BlockWalk {
 public:
  BlockWalk(const TransferDescriptor& t, const Block& block, Visit& visit)
      : t_(t), block_(block), visit_(visit) {
    int64_t radix = 1;
    for (uint32_t a = t.rank; a-- > 0;) {
      if (!t.axes[a].lane) continue;
      radix_[a] = radix;
      radix *= t.axes[a].size;
    }
    for (uint32_t a = 0; a < t.rank; ++a)
      if (block.n[a] > 1) active_[active_count_++] = a;
  }

  void run() {
    int64_t cell = 0, c = 0;
    for (uint32_t a = 0; a < t_.rank; ++a) {
      if (t_.axes[a].lane)
        c += radix_[a] * block_.lo[a];
      else
        cell += t_.axes[a].spad_stride * block_.lo[a];
    }
    walk(0, block_.dram_first, cell, c);
  }

 private:
  void walk(uint32_t depth, int64_t dram, int64_t cell, int64_t c) {
    if (depth >= active_count_) return visit_(Run{dram, 1, 1, cell, 1, c, false});
    const uint32_t a = active_[depth];
    const TransferDescriptor::Axis& axis = t_.axes[a];
    const bool over_lanes = axis.lane;
    if (depth + 1 == active_count_ && (!over_lanes || radix_[a] == 1))
      return visit_(
          Run{dram, axis.dram_stride, block_.n[a], cell, over_lanes ? 0 : axis.spad_stride, c, over_lanes});
    for (int64_t i = 0; i < block_.n[a]; ++i)
      walk(depth + 1, dram + i * axis.dram_stride, over_lanes ? cell : cell + i * axis.spad_stride,
           over_lanes ? c + i * radix_[a] : c);
  }

  const TransferDescriptor& t_;
  const Block& block_;
  Visit& visit_;
  std::array<int64_t, kMaxRank> radix_ = {};
  std::array<uint32_t, kMaxRank> active_ = {};
  uint32_t active_count_ = 0;
};

template <typename Visit>
void for_each_run(const TransferDescriptor& descriptor, const Block& block, Visit visit) {
  BlockWalk<Visit>(descriptor, block, visit).run();
}

// Calls visit(DRAM element) for every element of a block.
template <typename Visit>
void for_each_dram_element(const TransferDescriptor& descriptor, const Block& block, Visit visit) {
  auto elements = [&](const Run& run) {
    for (int64_t i = 0; i < run.count; ++i) visit(run.dram + i * run.dram_stride);
  };
  BlockWalk<decltype(elements)>(descriptor, block, elements).run();
}

}  // namespace npu::engine
