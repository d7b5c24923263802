// A DMA descriptor, decoded and checked once (its bytes are constants).
#pragma once

#include <array>
#include <cstdint>

#include "isa_generated.h"

namespace npu::engine {

struct TransferDescriptor {
  struct Axis {
    int64_t size = 0;
    int64_t dram_stride = 0;  // elements
    int64_t spad_stride = 0;  // elements; of the slots, where lane
    bool lane = false;
  };
  struct Bound {
    int64_t base = 0;
    int64_t extent = 0;
    std::array<int64_t, kMaxRank> steps = {};
  };
  struct IndexTile {
    uint64_t address = 0;
    uint32_t entry_bytes = 4;
    bool wrap = false;
    uint32_t axes_mask = 0;
    int64_t dram_stride = 0;
    int64_t extent = 0;
  };

  uint32_t slot = 0;
  TransferOp op = TransferOp::Load;
  Dtype dtype = Dtype::Float32;
  uint32_t element_bytes = 4;
  uint32_t rank = 0, bound_count = 0, index_tile_count = 0;
  bool local = false;
  int64_t lane_stride = 1;
  int64_t offset = 0;
  uint64_t spad_address = 0;
  uint64_t fill = 0;
  std::array<Axis, kMaxRank> axes;
  std::array<Bound, kMaxBounds> bounds;
  std::array<IndexTile, kMaxIndexTiles> index_tiles;

  // What follows from the fields above and the number of lanes.
  bool has_lane_axis = false;
  uint32_t lane_mask = 0;       // axes of the lane group
  int64_t lane_elements = 1;    // product of their sizes
  int64_t slots = 1;            // slots that some lane uses
  int64_t slot_stride = 0;      // elements
  int64_t lane_cells = 1;       // elements of one lane's tile: slots times in-lane sizes
  int64_t elements = 1;         // product of all sizes
  bool distinct_cells = false;  // no two elements of a lane share a cell

  bool load() const { return op == TransferOp::Load; }
};

// Throws Fault (bad-descriptor) if the bytes describe no transfer of a machine with these lanes and slices.
TransferDescriptor decode_descriptor(const uint8_t* bytes, uint32_t lanes, uint64_t slice_bytes);

}  // namespace npu::engine
