#include "dma_move.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "block_walk.h"
#include "dma_combine.h"
#include "dma_tiles.h"
#include "faults.h"

namespace npu::engine {

namespace {

// Lane and cell of positions in the lane group.
class LaneMap {
 public:
  LaneMap(const TransferPlan& plan, Scratchpad& scratchpad, uint32_t lanes)
      : t_(plan.descriptor),
        scratchpad_(scratchpad),
        lanes_(lanes),
        lanes_shift_(std::countr_zero(lanes)),
        base_(plan.spad_offset) {}

  uint32_t lane(int64_t c) const { return static_cast<uint32_t>(run(c)) & (lanes_ - 1); }
  int64_t slot(int64_t c) const {
    const int64_t within = t_.lane_stride == 1 ? 0 : c % t_.lane_stride;
    return (run(c) >> lanes_shift_) * t_.lane_stride + within;
  }
  uint64_t offset(int64_t cell, int64_t c) const {
    return base_ + static_cast<uint64_t>((cell + (t_.has_lane_axis ? slot(c) * t_.slot_stride : 0)) *
                                         t_.element_bytes);
  }
  uint8_t* place(int64_t cell, int64_t c) const { return scratchpad_.lane(lane(c)) + offset(cell, c); }

 private:
  int64_t run(int64_t c) const { return t_.lane_stride == 1 ? c : c / t_.lane_stride; }

  const TransferDescriptor& t_;
  Scratchpad& scratchpad_;
  uint32_t lanes_;  // a power of two
  int lanes_shift_;
  uint64_t base_;
};

template <typename Body>
void with_element(uint32_t bytes, Body body) {
  switch (bytes) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}

template <typename Element>
void copy_strided(uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride, int64_t count) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
    return;
  }
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride * kBytes, from + i * from_stride * kBytes, kBytes);
}

template <typename Element>
void load_block(const TransferPlan& plan, const Block& block, const uint8_t* data, Scratchpad& scratchpad,
                uint32_t lanes) {
  const TransferDescriptor& t = plan.descriptor;
  const LaneMap map(plan, scratchpad, lanes);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  for_each_run(t, block, [&](const Run& run) {
    const uint8_t* from = data + run.dram * kBytes;
    if (run.over_lanes) {
      for (int64_t i = 0; i < run.count; ++i)
        std::memcpy(map.place(run.cell, run.c + i), from + i * run.dram_stride * kBytes, kBytes);
    } else if (t.has_lane_axis) {
      copy_strided<Element>(map.place(run.cell, run.c), run.cell_stride, from, run.dram_stride, run.count);
    } else {
      for (uint32_t lane = 0; lane < lanes; ++lane)
        copy_strided<Element>(scratchpad.lane(lane) + map.offset(run.cell, 0), run.cell_stride, from,
                              run.dram_stride, run.count);
    }
  });
}

// Writes `fill` to every cell of every lane.
template <typename Element>
void fill_cells(const TransferPlan& plan, Scratchpad& scratchpad, uint32_t lanes) {
  const TransferDescriptor& t = plan.descriptor;
  const auto fill = static_cast<Element>(t.fill);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  std::vector<StridedAxis> axes;
  if (t.has_lane_axis) axes.push_back({t.slots, t.slot_stride * kBytes});
  for (uint32_t a = 0; a < t.rank; ++a)
    if (!t.axes[a].lane) axes.push_back({t.axes[a].size, t.axes[a].spad_stride * kBytes});
  std::erase_if(axes, [](const StridedAxis& axis) { return axis.count == 1; });
  std::stable_sort(axes.begin(), axes.end(), [](const StridedAxis& a, const StridedAxis& b) {
    return std::abs(a.stride_bytes) > std::abs(b.stride_bytes);
  });
  if (axes.empty()) axes.push_back({1, kBytes});
  const StridedAxis inner = axes.back();
  axes.pop_back();
  std::vector<int64_t> position(axes.size(), 0);
  for (;;) {
    int64_t offset = static_cast<int64_t>(plan.spad_offset);
    for (size_t a = 0; a < axes.size(); ++a) offset += position[a] * axes[a].stride_bytes;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      uint8_t* cell = scratchpad.lane(lane) + offset;
      for (int64_t i = 0; i < inner.count; ++i)
        std::memcpy(cell + i * inner.stride_bytes, &fill, sizeof fill);
    }
    size_t a = axes.size();
    while (a > 0 && ++position[a - 1] == axes[a - 1].count) position[--a] = 0;
    if (a == 0) return;
  }
}

template <typename Element>
void fill_if_needed(const TransferPlan& plan, Scratchpad& scratchpad, uint32_t lanes) {
  const TransferDescriptor& t = plan.descriptor;
  const int64_t all = t.has_lane_axis ? t.lane_cells * lanes : t.lane_cells;
  if (plan.existing < all) fill_cells<Element>(plan, scratchpad, lanes);
}

[[noreturn]] void lanes_disagree(uint32_t lane, uint64_t offset) {
  throw Fault(
      FaultKind::LanesDisagree,
      "a store without a lane axis finds other bytes in lane " + std::to_string(lane) + " than in lane 0",
      static_cast<int32_t>(lane), kScratchpadBase + offset);
}

template <typename Element>
void store_block(const TransferPlan& plan, const Block& block, uint8_t* data, Scratchpad& scratchpad,
                 uint32_t lanes) {
  const TransferDescriptor& t = plan.descriptor;
  const LaneMap map(plan, scratchpad, lanes);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  const auto put = [&](uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride,
                       int64_t count) {
    if (t.op == TransferOp::Store)
      copy_strided<Element>(to, to_stride, from, from_stride, count);
    else
      combine(t.op, t.dtype, to, to_stride * kBytes, from, from_stride * kBytes, count);
  };
  for_each_run(t, block, [&](const Run& run) {
    uint8_t* to = data + run.dram * kBytes;
    if (run.over_lanes) {
      for (int64_t i = 0; i < run.count; ++i)
        put(to + i * run.dram_stride * kBytes, 1, map.place(run.cell, run.c + i), 1, 1);
      return;
    }
    if (!t.has_lane_axis) {
      const uint64_t offset = map.offset(run.cell, 0);
      for (int64_t i = 0; i < run.count; ++i) {
        const uint64_t at = offset + static_cast<uint64_t>(i * run.cell_stride * kBytes);
        for (uint32_t lane = 1; lane < lanes; ++lane)
          if (std::memcmp(scratchpad.lane(lane) + at, scratchpad.lane(0) + at, kBytes) != 0)
            lanes_disagree(lane, at);
      }
    }
    const uint8_t* from =
        t.has_lane_axis ? map.place(run.cell, run.c) : scratchpad.lane(0) + map.offset(run.cell, 0);
    put(to, run.dram_stride, from, run.cell_stride, run.count);
  });
}

}  // namespace

LocalPlace local_place(const TransferDescriptor& t, int64_t element, uint64_t slice_bytes) {
  const auto per_lane = static_cast<int64_t>(slice_bytes / t.element_bytes);
  const uint64_t base = static_cast<uint64_t>(t.offset) - kScratchpadBase;
  return {static_cast<uint32_t>(element / per_lane),
          base + static_cast<uint64_t>(element % per_lane) * t.element_bytes};
}

void deliver_load(const TransferPlan& plan, const uint8_t* data, Scratchpad& scratchpad, uint32_t lanes,
                  const Bodies& bodies) {
  const uint32_t element_bytes = plan.descriptor.element_bytes;
  with_element(element_bytes, [&](auto element) {
    using Element = decltype(element);
    fill_if_needed<Element>(plan, scratchpad, lanes);
    for (const Block& block : plan.blocks) {
      const bool tiled = for_each_tile(plan, block, scratchpad, lanes, [&](const LaneTile& tile) {
        load_tile(tile, element_bytes, data, bodies);
      });
      if (!tiled) load_block<Element>(plan, block, data, scratchpad, lanes);
    }
  });
}

void deliver_local(const TransferPlan& plan, Scratchpad& scratchpad, uint32_t lanes) {
  const TransferDescriptor& t = plan.descriptor;
  const LaneMap map(plan, scratchpad, lanes);
  with_element(t.element_bytes, [&](auto element) {
    using Element = decltype(element);
    fill_if_needed<Element>(plan, scratchpad, lanes);
    for (const Block& block : plan.blocks)
      for_each_run(t, block, [&](const Run& run) {
        for (int64_t i = 0; i < run.count; ++i) {
          const LocalPlace source = local_place(t, run.dram + i * run.dram_stride, scratchpad.slice_bytes());
          const uint8_t* from = scratchpad.lane(source.lane) + source.offset;
          const int64_t cell = run.cell + i * run.cell_stride, c = run.over_lanes ? run.c + i : run.c;
          if (t.has_lane_axis)
            std::memcpy(map.place(cell, c), from, sizeof(Element));
          else
            for (uint32_t lane = 0; lane < lanes; ++lane)
              std::memcpy(scratchpad.lane(lane) + map.offset(cell, 0), from, sizeof(Element));
        }
      });
  });
}

void perform_store(const TransferPlan& plan, uint8_t* data, Scratchpad& scratchpad, uint32_t lanes,
                   const Bodies& bodies) {
  const TransferDescriptor& t = plan.descriptor;
  const auto size = static_cast<int64_t>(t.element_bytes);
  std::vector<uint8_t> matrix;
  const auto store = [&](const LaneTile& tile) {
    if (t.op == TransferOp::Store) return store_tile(tile, t.element_bytes, data, bodies);
    gather_tile(tile, t.element_bytes, matrix, bodies);
    for (int64_t r = 0; r < tile.rows; ++r)
      combine(t.op, t.dtype, data + (tile.dram + r * tile.row_stride) * size, tile.lane_stride * size,
              matrix.data() + r * tile.lanes * size, size, tile.lanes);
  };
  for (const Block& block : plan.blocks)
    if (!for_each_tile(plan, block, scratchpad, lanes, store))
      with_element(t.element_bytes, [&](auto element) {
        store_block<decltype(element)>(plan, block, data, scratchpad, lanes);
      });
}

}  // namespace npu::engine
