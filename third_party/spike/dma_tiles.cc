#include "dma_tiles.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace npu::engine {

namespace {

// True if no two elements of the block have one DRAM element.
bool distinct_in_dram(const TransferDescriptor& t, const Block& block) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // (stride, count)
  for (uint32_t a = 0; a < t.rank; ++a)
    if (block.n[a] > 1) axes.emplace_back(std::abs(t.axes[a].dram_stride), block.n[a]);
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (const auto& [stride, count] : axes) {
    if (stride <= reach) return false;
    reach += stride * (count - 1);
  }
  return true;
}

template <typename Element>
void copy_elements(uint8_t* to, int64_t to_stride, const uint8_t* from, int64_t from_stride, int64_t count) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_stride * kBytes, from + i * from_stride * kBytes, kBytes);
}

using CopyElements = void (*)(uint8_t*, int64_t, const uint8_t*, int64_t, int64_t);

CopyElements copier(uint32_t element_bytes) {
  constexpr CopyElements kCopiers[] = {copy_elements<uint8_t>, copy_elements<uint16_t>,
                                       copy_elements<uint32_t>, copy_elements<uint64_t>};
  return kCopiers[std::countr_zero(element_bytes)];
}

// Strided on both sides: rows in short stretches, so that the lines of all lanes stay in the cache.
constexpr int64_t kStretch = 16;

// Where elements c, c + step, c + 2 step ... of the lane group lie, without the axes inside the lane.
class LanePointers {
 public:
  LanePointers(const TransferPlan& plan, Scratchpad& scratchpad, uint32_t lanes, int64_t step)
      : t_(plan.descriptor),
        scratchpad_(scratchpad),
        lanes_(lanes),
        spad_offset_(plan.spad_offset),
        step_(step) {}

  // `count` pointers, valid until the next call.
  uint8_t* const* from(int64_t c, int64_t count) {
    if (c == first_ && count == static_cast<int64_t>(pointers_.size())) return pointers_.data();
    first_ = c;
    pointers_.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < pointers_.size(); ++i) {
      const int64_t index = c + static_cast<int64_t>(i) * step_, run = index / t_.lane_stride;
      const int64_t slot = run / lanes_ * t_.lane_stride + index % t_.lane_stride;
      pointers_[i] = scratchpad_.lane(static_cast<uint32_t>(run % lanes_)) + spad_offset_ +
                     slot * t_.slot_stride * t_.element_bytes;
    }
    return pointers_.data();
  }

 private:
  const TransferDescriptor& t_;
  Scratchpad& scratchpad_;
  uint32_t lanes_;
  uint64_t spad_offset_;
  int64_t step_;
  int64_t first_ = -1;
  std::vector<uint8_t*> pointers_;
};

}  // namespace

bool for_each_tile(const TransferPlan& plan, const Block& block, Scratchpad& scratchpad, uint32_t lanes,
                   const std::function<void(const LaneTile&)>& visit) {
  const TransferDescriptor& t = plan.descriptor;
  if (!t.has_lane_axis || !t.distinct_cells || (!t.load() && !distinct_in_dram(t, block))) return false;
  std::array<int64_t, kMaxRank> radix = {};
  int64_t product = 1;
  uint32_t lane_axis = kMaxRank, row_axis = kMaxRank;
  for (uint32_t a = t.rank; a-- > 0;) {
    if (t.axes[a].lane) {
      radix[a] = product;
      product *= t.axes[a].size;
      if (lane_axis == kMaxRank && radix[a] == 1) lane_axis = a;
    } else if (t.axes[a].spad_stride == 1 && block.n[a] > 1) {
      row_axis = a;
    }
  }
  if (lane_axis == kMaxRank) return false;
  std::array<uint32_t, kMaxRank> outer = {};
  size_t outer_count = 0;
  for (uint32_t a = 0; a < t.rank; ++a)
    if (a != lane_axis && a != row_axis && block.n[a] > 1) outer[outer_count++] = a;

  int64_t first_c = 0, first_cell = 0;
  for (uint32_t a = 0; a < t.rank; ++a)
    (t.axes[a].lane ? first_c : first_cell) +=
        (t.axes[a].lane ? radix[a] : t.axes[a].spad_stride) * block.lo[a];

  // Neighbours of a run that lie side by side in the lane are rows as well, where no other axis is.
  const bool run_rows = row_axis == kMaxRank && t.lane_stride > 1 && t.slot_stride == 1;
  const int64_t run_length = run_rows ? t.lane_stride : 1, lane_dram = t.axes[lane_axis].dram_stride;
  const int64_t rows = row_axis == kMaxRank ? 1 : int64_t{block.n[row_axis]};
  const int64_t row_dram = row_axis == kMaxRank ? 0 : t.axes[row_axis].dram_stride;
  LanePointers pointers(plan, scratchpad, lanes, run_length);
  std::array<int64_t, kMaxRank> at = {};
  for (;;) {
    int64_t c = first_c, cell = first_cell, dram = block.dram_first;
    for (size_t i = 0; i < outer_count; ++i) {
      const TransferDescriptor::Axis& axis = t.axes[outer[i]];
      (axis.lane ? c : cell) += (axis.lane ? radix[outer[i]] : axis.spad_stride) * at[i];
      dram += axis.dram_stride * at[i];
    }
    const size_t offset = static_cast<size_t>(cell) * t.element_bytes;
    for (int64_t left = block.n[lane_axis]; left > 0;) {
      if (run_rows) {  // the rest of a run, then whole runs, then the start of one
        const int64_t whole = c % run_length == 0 ? left / run_length : 0;
        const int64_t length = whole ? run_length : std::min(left, run_length - c % run_length);
        const int64_t count = whole ? whole : 1;
        visit({pointers.from(c, count), offset, length, count, dram, lane_dram, run_length * lane_dram});
        c += length * count;
        left -= length * count;
        dram += length * count * lane_dram;
      } else {
        visit({pointers.from(c, left), offset, rows, left, dram, row_dram, lane_dram});
        left = 0;
      }
    }
    size_t i = outer_count;
    while (i > 0 && ++at[i - 1] == block.n[outer[i - 1]]) at[--i] = 0;
    if (i == 0) return true;
  }
}

void load_tile(const LaneTile& tile, uint32_t element_bytes, const uint8_t* data, const Bodies& bodies) {
  const auto size = static_cast<int64_t>(element_bytes);
  const uint8_t* from = data + tile.dram * size;
  if (tile.row_stride == 1 && tile.rows > 1) {
    for (int64_t c = 0; c < tile.lanes; ++c)
      std::memcpy(tile.lane[c] + tile.offset, from + c * tile.lane_stride * size,
                  static_cast<size_t>(tile.rows * size));
  } else if (tile.lane_stride == 1 && tile.row_stride >= 0) {
    bodies.rows_to_lanes[std::countr_zero(element_bytes)](
        tile.lane, tile.offset, from, static_cast<size_t>(tile.row_stride * size),
        static_cast<size_t>(tile.rows), static_cast<size_t>(tile.lanes));
  } else {
    const CopyElements copy = copier(element_bytes);
    for (int64_t r = 0; r < tile.rows; r += kStretch)
      for (int64_t c = 0; c < tile.lanes; ++c)
        copy(tile.lane[c] + tile.offset + r * size, 1,
             from + (r * tile.row_stride + c * tile.lane_stride) * size, tile.row_stride,
             std::min(kStretch, tile.rows - r));
  }
}

void store_tile(const LaneTile& tile, uint32_t element_bytes, uint8_t* data, const Bodies& bodies) {
  const auto size = static_cast<int64_t>(element_bytes);
  uint8_t* to = data + tile.dram * size;
  if (tile.row_stride == 1 && tile.rows > 1) {
    for (int64_t c = 0; c < tile.lanes; ++c)
      std::memcpy(to + c * tile.lane_stride * size, tile.lane[c] + tile.offset,
                  static_cast<size_t>(tile.rows * size));
  } else if (tile.lane_stride == 1 && tile.row_stride >= 0) {
    bodies.lanes_to_rows[std::countr_zero(element_bytes)](
        tile.lane, tile.offset, to, static_cast<size_t>(tile.row_stride * size),
        static_cast<size_t>(tile.rows), static_cast<size_t>(tile.lanes));
  } else {
    const CopyElements copy = copier(element_bytes);
    for (int64_t r = 0; r < tile.rows; r += kStretch)
      for (int64_t c = 0; c < tile.lanes; ++c)
        copy(to + (r * tile.row_stride + c * tile.lane_stride) * size, tile.row_stride,
             tile.lane[c] + tile.offset + r * size, 1, std::min(kStretch, tile.rows - r));
  }
}

void gather_tile(const LaneTile& tile, uint32_t element_bytes, std::vector<uint8_t>& matrix,
                 const Bodies& bodies) {
  matrix.resize(static_cast<size_t>(tile.rows * tile.lanes) * element_bytes);
  bodies.lanes_to_rows[std::countr_zero(element_bytes)](
      tile.lane, tile.offset, matrix.data(), static_cast<size_t>(tile.lanes) * element_bytes,
      static_cast<size_t>(tile.rows), static_cast<size_t>(tile.lanes));
}

}  // namespace npu::engine
