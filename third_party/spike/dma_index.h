// Index tiles of gathers and scatters, read out of the slices.
#pragma once

#include <array>

#include "dma_plan.h"
#include "scratchpad.h"

namespace npu::engine {

// Reads index tiles out of the slices; in timing mode, where no data is there, takes consecutive indices.
class TileIndices : public IndexSource {
 public:
  TileIndices(const TransferDescriptor& t, Scratchpad& scratchpad, uint32_t lanes,
              const std::array<uint64_t, kMaxIndexTiles>& offsets, uint64_t* assumed)
      : t_(t), scratchpad_(scratchpad), lanes_(lanes), offsets_(offsets), assumed_(assumed) {}

  int64_t index(uint32_t number, const std::array<uint32_t, kMaxRank>& point) override;

 private:
  const TransferDescriptor& t_;
  Scratchpad& scratchpad_;
  uint32_t lanes_;
  std::array<uint64_t, kMaxIndexTiles> offsets_;
  uint64_t* assumed_;
};

}  // namespace npu::engine
