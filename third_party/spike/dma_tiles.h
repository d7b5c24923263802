// The fast way through a block: tiles of one lane axis by one axis that is contiguous in the lane, which may
// be the runs of neighbours that a lane holds. Only where every element is distinct, so that the order does
// not show.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dma_plan.h"
#include "native/bodies.h"
#include "scratchpad.h"

namespace npu::engine {

// A tile: `rows` elements in each of `lanes`: element (r, c) is at lane[c] + offset + r * element bytes, and
// at DRAM element dram + r * row_stride + c * lane_stride.
struct LaneTile {
  uint8_t* const* lane;
  size_t offset;
  int64_t rows;
  int64_t lanes;
  int64_t dram;
  int64_t row_stride;
  int64_t lane_stride;
};

// Visits the tiles of a block; false if the block has none (no lane axis, or elements that are not distinct).
bool for_each_tile(const TransferPlan& plan, const Block& block, Scratchpad& scratchpad, uint32_t lanes,
                   const std::function<void(const LaneTile&)>& visit);

// Moves a tile from or to `data` (element 0 of the slot).
void load_tile(const LaneTile& tile, uint32_t element_bytes, const uint8_t* data, const Bodies& bodies);
void store_tile(const LaneTile& tile, uint32_t element_bytes, uint8_t* data, const Bodies& bodies);
// The tile's elements as a dense matrix [rows][lanes].
void gather_tile(const LaneTile& tile, uint32_t element_bytes, std::vector<uint8_t>& matrix,
                 const Bodies& bodies);

}  // namespace npu::engine
