// Everything a transfer is checked for at its start: places in the slices, bytes in flight, bounds of the
// tensor.
#include <algorithm>

#include "block_walk.h"
#include "dma_move.h"
#include "engine_core.h"

namespace npu::engine {

namespace {

// First and last DRAM element of a block. Products cannot overflow: sizes and strides were checked by the
// plan's bounds.
std::pair<__int128, __int128> element_span(const TransferDescriptor& t, const Block& block) {
  __int128 low = block.dram_first, high = low;
  for (uint32_t a = 0; a < t.rank; ++a) {
    const __int128 reach = static_cast<__int128>(t.axes[a].dram_stride) * (block.n[a] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

}  // namespace

void Core::place_tile(TransferPlan& plan, uint64_t set_address) {
  const TransferDescriptor& t = plan.descriptor;
  const uint64_t address = t.spad_address + set_address;
  plan.spad_offset = address - kScratchpadBase;
  std::vector<StridedAxis> axes;
  const auto bytes = static_cast<int64_t>(t.element_bytes);
  const auto add_axis = [&](int64_t count, int64_t stride) {
    // A stride past the slice leaves it whatever the count, and bounding it keeps the product in range.
    const auto most = static_cast<int64_t>(params.slice_bytes);
    axes.push_back({count, std::clamp(stride, -most, most) * bytes});
  };
  if (t.has_lane_axis) add_axis(t.slots, t.slot_stride);
  for (uint32_t a = 0; a < t.rank; ++a)
    if (!t.axes[a].lane) add_axis(t.axes[a].size, t.axes[a].spad_stride);
  const uint64_t limit = params.slice_bytes - params.stack_reserve_bytes;
  if (plan.spad_offset >= params.slice_bytes ||
      !covered_ranges(plan.spad_offset, std::move(axes), t.element_bytes, limit, plan.cells))
    throw Fault(FaultKind::OutOfSlice,
                "the tile at " + hex(address) + " does not lie in [" + hex(kScratchpadBase) + ", " +
                    hex(kScratchpadBase + limit) + "), the slice below the stack reserve",
                -1, address);
}

std::array<uint64_t, kMaxIndexTiles> Core::place_index_tiles(TransferPlan& plan, const DmaSet& set) {
  const TransferDescriptor& t = plan.descriptor;
  std::array<uint64_t, kMaxIndexTiles> offsets = {};
  for (uint32_t i = 0; i < t.index_tile_count; ++i) {
    const TransferDescriptor::IndexTile& tile = t.index_tiles[i];
    uint64_t entries = (tile.axes_mask & t.lane_mask) != 0 ? static_cast<uint64_t>(t.slots) : 1;
    for (uint32_t a = 0; a < t.rank; ++a)
      if ((tile.axes_mask >> a & 1) != 0 && !t.axes[a].lane) entries *= static_cast<uint64_t>(t.axes[a].size);
    const uint64_t address = tile.address + set[kSetIndexTile + i];
    const uint64_t bytes = entries * tile.entry_bytes;
    offsets[i] = slice_offset(address, bytes, params.slice_bytes - params.stack_reserve_bytes);
    if (offsets[i] == UINT64_MAX)
      throw Fault(FaultKind::OutOfSlice,
                  "index tile " + std::to_string(i) + " of " + std::to_string(bytes) + " bytes at " +
                      hex(address) + " does not lie in the slice below the stack reserve",
                  -1, address);
    plan.sources.push_back({offsets[i], bytes});
  }
  normalise(plan.sources);
  return offsets;
}

void Core::normalise(std::vector<InFlight::Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const InFlight::Range& a, const InFlight::Range& b) { return a.offset < b.offset; });
}

// A transfer touches its bytes as an instruction would.
void Core::check_plan_in_flight(const TransferPlan& plan) {
  for (const InFlight::Range& range : plan.cells)
    check_in_flight(range.offset, range.bytes, plan.descriptor.load(), -1);
  for (const InFlight::Range& range : plan.sources) {
    check_in_flight(range.offset, range.bytes, false, -1);
    if (plan.descriptor.load() && InFlight::overlap(plan.cells, range.offset, range.bytes))
      throw Fault(FaultKind::InFlight, "a load's target overlaps its own source or index tile", -1,
                  kScratchpadBase + range.offset);
  }
}

void Core::check_dram_side(TransferPlan& plan) {
  const TransferDescriptor& t = plan.descriptor;
  if (t.local) return check_local_side(plan);
  if (t.slot >= request_->slots.size())
    throw Fault(FaultKind::SlotBounds, "slot " + std::to_string(t.slot) + " does not exist, the launch has " +
                                           std::to_string(request_->slots.size()));
  const Slot& slot = request_->slots[t.slot];
  const std::string name = "slot " + std::to_string(t.slot);
  if (slot.element_bytes != t.element_bytes)
    throw Fault(FaultKind::BadDescriptor, name + " has elements of " + std::to_string(slot.element_bytes) +
                                              " bytes, the descriptor " +
                                              kDtypes[static_cast<size_t>(t.dtype)].name);
  if (!t.load() && !slot.writable)
    throw Fault(FaultKind::ReadOnly, name + " may not be written: it is an input");
  for (const Block& block : plan.blocks) {
    const auto [low, high] = element_span(t, block);
    if (low * t.element_bytes >= slot.lowest_byte && (high + 1) * t.element_bytes <= slot.end_byte) continue;
    const bool below = low * t.element_bytes < slot.lowest_byte;
    throw Fault(FaultKind::SlotBounds,
                name + ": element " + std::to_string(static_cast<int64_t>(below ? low : high)) +
                    " is outside the tensor's elements [" +
                    std::to_string(slot.lowest_byte / t.element_bytes) + ", " +
                    std::to_string(slot.end_byte / t.element_bytes) + ")",
                -1, slot.dram_address + static_cast<uint64_t>((below ? low : high) * t.element_bytes));
  }
}

// The source of a local transfer: every element in a slice, and which bytes those are.
void Core::check_local_side(TransferPlan& plan) {
  const TransferDescriptor& t = plan.descriptor;
  const uint64_t tiles_end = params.slice_bytes - params.stack_reserve_bytes;
  const auto all = static_cast<__int128>(lanes) * (params.slice_bytes / t.element_bytes);
  std::vector<bool> granules(tiles_end / kInFlightGranuleBytes + 1, false);
  for (const Block& block : plan.blocks) {
    const auto [low, high] = element_span(t, block);
    if (low < 0 || high >= all)
      throw Fault(FaultKind::OutOfSlice,
                  "a local transfer's source leaves the scratchpad of " + std::to_string(lanes) + " lanes");
    for_each_dram_element(t, block, [&](int64_t element) {
      const LocalPlace place = local_place(t, element, params.slice_bytes);
      if (place.offset >= tiles_end || t.element_bytes > tiles_end - place.offset)
        throw Fault(FaultKind::OutOfSlice,
                    "a local transfer's source leaves the slice below the stack reserve",
                    static_cast<int32_t>(place.lane), kScratchpadBase + place.offset);
      granules[place.offset / kInFlightGranuleBytes] = true;
      granules[(place.offset + t.element_bytes - 1) / kInFlightGranuleBytes] = true;
    });
  }
  for (uint64_t granule = 0; granule < granules.size(); ++granule)
    if (granules[granule]) plan.sources.push_back({granule * kInFlightGranuleBytes, kInFlightGranuleBytes});
}

}  // namespace npu::engine
