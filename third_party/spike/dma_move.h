// Moving the elements of a planned transfer between DRAM (host memory) and the slices.
#pragma once

#include "dma_plan.h"
#include "native/bodies.h"
#include "scratchpad.h"

namespace npu::engine {

// A load: `data` is element 0 of the slot. Writes the whole tile in every lane, `fill` where no element
// exists.
void deliver_load(const TransferPlan& plan, const uint8_t* data, Scratchpad& scratchpad, uint32_t lanes,
                  const Bodies& bodies);

// A load whose source is the scratchpad itself.
void deliver_local(const TransferPlan& plan, Scratchpad& scratchpad, uint32_t lanes);

// A store of any kind. Throws Fault (lanes-disagree) where a tile without a lane axis differs between lanes.
void perform_store(const TransferPlan& plan, uint8_t* data, Scratchpad& scratchpad, uint32_t lanes,
                   const Bodies& bodies);

// Where a local transfer's element lies.
struct LocalPlace {
  uint32_t lane;
  uint64_t offset;  // in the slice
};
LocalPlace local_place(const TransferDescriptor& descriptor, int64_t element, uint64_t slice_bytes);

}  // namespace npu::engine
