#include "dma_index.h"

#include <cstring>

#include "faults.h"

namespace npu::engine {

int64_t TileIndices::index(uint32_t number, const std::array<uint32_t, kMaxRank>& point) {
  const TransferDescriptor::IndexTile& tile = t_.index_tiles[number];
  int64_t c = 0, entry = 0;
  bool slots_placed = false;
  for (uint32_t a = 0; a < t_.rank; ++a)
    if (t_.axes[a].lane) c = c * t_.axes[a].size + point[a];
  for (uint32_t a = 0; a < t_.rank; ++a) {
    if ((tile.axes_mask >> a & 1) == 0) continue;
    if (!t_.axes[a].lane) {
      entry = entry * t_.axes[a].size + point[a];
    } else if (!slots_placed) {
      slots_placed = true;
      entry = entry * t_.slots + c / (t_.lane_stride * lanes_) * t_.lane_stride + c % t_.lane_stride;
    }
  }
  const uint32_t lane = slots_placed ? static_cast<uint32_t>(c / t_.lane_stride % lanes_) : 0;
  if (assumed_ != nullptr) return tile.extent <= 0 ? 0 : static_cast<int64_t>((*assumed_)++) % tile.extent;

  const uint64_t offset = offsets_[number] + static_cast<uint64_t>(entry) * tile.entry_bytes;
  const uint8_t* bytes = scratchpad_.lane(lane) + offset;
  for (uint32_t other = 1; !slots_placed && other < lanes_; ++other)
    if (std::memcmp(scratchpad_.lane(other) + offset, bytes, tile.entry_bytes) != 0)
      throw Fault(FaultKind::LanesDisagree, "an index tile without a lane axis differs between lanes",
                  static_cast<int32_t>(other), kScratchpadBase + offset);
  int64_t value = 0;
  if (tile.entry_bytes == 8) {
    std::memcpy(&value, bytes, 8);
  } else {
    int32_t narrow = 0;
    std::memcpy(&narrow, bytes, 4);
    value = narrow;
  }
  const int64_t wrapped = tile.wrap && value < 0 ? value + tile.extent : value;
  if (wrapped < 0 || wrapped >= tile.extent)
    throw Fault(
        FaultKind::IndexOutOfRange,
        "index " + std::to_string(value) + " is out of range for an extent of " + std::to_string(tile.extent),
        static_cast<int32_t>(lane), kScratchpadBase + offset);
  return wrapped;
}

}  // namespace npu::engine
