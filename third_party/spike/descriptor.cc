#include "descriptor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "faults.h"

namespace npu::engine {

namespace {

void require(bool sound, const std::string& why) {
  if (!sound) throw Fault(FaultKind::BadDescriptor, why);
}

template <typename Record>
Record read(const uint8_t*& at) {
  Record record;
  std::memcpy(&record, at, sizeof record);
  at += sizeof record;
  return record;
}

// Every stride reaches past all that the smaller ones span.
bool cells_are_distinct(const TransferDescriptor& t) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // (stride, count)
  if (t.slots > 1) axes.emplace_back(t.slot_stride, t.slots);
  for (uint32_t a = 0; a < t.rank; ++a)
    if (!t.axes[a].lane && t.axes[a].size > 1) axes.emplace_back(t.axes[a].spad_stride, t.axes[a].size);
  std::sort(axes.begin(), axes.end());
  __int128 reach = 0;
  for (const auto& [stride, count] : axes) {
    if (stride <= reach) return false;
    reach += static_cast<__int128>(stride) * (count - 1);
  }
  return true;
}

void derive(TransferDescriptor& t, uint32_t lanes, uint64_t slice_bytes) {
  // More elements than the scratchpad holds cannot be one tile; this also keeps every product below in range.
  const auto most = static_cast<int64_t>(lanes * (slice_bytes / t.element_bytes));
  const bool empty =
      std::any_of(t.axes.begin(), t.axes.begin() + t.rank, [](const auto& axis) { return axis.size == 0; });
  for (uint32_t a = 0; a < t.rank; ++a) {
    const TransferDescriptor::Axis& axis = t.axes[a];
    if (empty) {
      t.elements = 0;
    } else {
      require(axis.size <= most / t.elements, "the tile has more elements than the scratchpad");
      t.elements *= axis.size;
    }
    if (axis.lane) {
      require(!t.has_lane_axis || axis.spad_stride == t.slot_stride,
              "axes of the lane group have different spad strides");
      t.has_lane_axis = true;
      t.lane_mask |= 1u << a;
      t.slot_stride = axis.spad_stride;
    }
  }
  if (empty) return;
  for (uint32_t a = 0; a < t.rank; ++a) (t.axes[a].lane ? t.lane_elements : t.lane_cells) *= t.axes[a].size;
  if (t.has_lane_axis) {
    const int64_t round = t.lane_stride * lanes;
    const int64_t full_rounds = (t.lane_elements - 1) / round;
    t.slots = full_rounds * t.lane_stride + std::min(t.lane_stride, t.lane_elements - full_rounds * round);
    t.lane_cells *= t.slots;
  }
  t.distinct_cells = cells_are_distinct(t);
}

}  // namespace

TransferDescriptor decode_descriptor(const uint8_t* bytes, uint32_t lanes, uint64_t slice_bytes) {
  const uint8_t* at = bytes;
  const auto header = read<DescriptorHeader>(at);
  require(header.magic == kDescriptorMagic, "no descriptor there: the first bytes are not its magic number");
  require(header.op <= static_cast<uint8_t>(TransferOp::StoreMax),
          "unknown transfer op " + std::to_string(header.op));
  require(header.dtype < std::size(kDtypes), "unknown element type " + std::to_string(header.dtype));
  require(header.rank >= 1 && header.rank <= kMaxRank,
          "rank " + std::to_string(header.rank) + " is not 1 to 8");
  require(header.bounds <= kMaxBounds, "too many bounds: " + std::to_string(header.bounds));
  require(header.index_tiles <= kMaxIndexTiles,
          "too many index tiles: " + std::to_string(header.index_tiles));
  require((header.flags & ~kFlagLocal) == 0, "unknown flags " + hex(header.flags));
  require(header.lane_stride >= 1, "lane_stride is 0");

  TransferDescriptor t;
  t.slot = header.slot;
  t.op = static_cast<TransferOp>(header.op);
  t.dtype = static_cast<Dtype>(header.dtype);
  t.element_bytes = kDtypes[header.dtype].bytes;
  t.rank = header.rank;
  t.bound_count = header.bounds;
  t.index_tile_count = header.index_tiles;
  t.local = (header.flags & kFlagLocal) != 0;
  t.lane_stride = header.lane_stride;
  t.offset = header.offset;
  t.spad_address = header.spad_address;
  t.fill = header.fill;
  require(!t.local || t.load(), "a local transfer can only load");
  for (uint32_t a = 0; a < kMaxRank; ++a) {
    const auto axis = read<DescriptorAxis>(at);
    require(a >= t.rank || axis.lane <= 1,
            "axis " + std::to_string(a) + " has lane flag " + std::to_string(axis.lane));
    t.axes[a] = {axis.size, axis.dram_stride, axis.spad_stride, axis.lane != 0};
  }
  for (uint32_t b = 0; b < kMaxBounds; ++b) {
    const auto bound = read<DescriptorBound>(at);
    t.bounds[b].base = bound.base;
    t.bounds[b].extent = bound.extent;
    for (uint32_t a = 0; a < kMaxRank; ++a) t.bounds[b].steps[a] = bound.steps[a];
  }
  derive(t, lanes, slice_bytes);
  for (uint32_t i = 0; i < kMaxIndexTiles; ++i) {
    const auto tile = read<DescriptorIndexTile>(at);
    if (i >= t.index_tile_count) continue;
    require(tile.wide <= 1 && tile.wrap <= 1, "an index tile's flags are not 0 or 1");
    require(tile.axes_mask != 0 && tile.axes_mask >> t.rank == 0,
            "an index tile runs over axes that do not exist");
    const uint32_t lane_axes = tile.axes_mask & t.lane_mask;
    require(lane_axes == 0 || lane_axes == t.lane_mask, "an index tile runs over a part of the lane group");
    t.index_tiles[i] = {tile.spad_address, tile.wide != 0 ? 8u : 4u, tile.wrap != 0,
                        tile.axes_mask,    tile.dram_stride,         tile.extent};
  }
  return t;
}

}  // namespace npu::engine
