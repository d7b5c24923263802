// DMA instructions: set, start (check, plan, mark in flight, store), wait (deliver loads).
#include "dma_index.h"
#include "dma_move.h"
#include "engine_core.h"

namespace npu::engine {

namespace {

constexpr size_t kMostPending = 16384;  // transfers under way at once; a source granule counts to 32767

}  // namespace

const TransferDescriptor& Core::descriptor_at(uint64_t address) {
  const auto known = descriptors_.find(address);
  if (known != descriptors_.end()) return known->second;
  const uint8_t* bytes = program.constants(address, kDescriptorBytes);
  const std::string where = "descriptor at " + hex(address) + ": ";
  if (bytes == nullptr)
    throw Fault(FaultKind::BadDescriptor, where + "not in the program's constants", -1, address);
  if (address % 8 != 0) throw Fault(FaultKind::BadDescriptor, where + "not aligned to 8 bytes", -1, address);
  try {
    return descriptors_.emplace(address, decode_descriptor(bytes, lanes, params.slice_bytes)).first->second;
  } catch (Fault& fault) {
    fault.text = where + fault.text;
    fault.address = address;
    throw;
  }
}

void Core::dma_set(const Decoded& entry) { dma_set_[entry.rd] = x(entry.rs1); }

void Core::dma_start(const Decoded& entry, uint64_t pc) {
  const uint64_t address = x(entry.rs1);
  const DmaSet set = dma_set_;
  dma_set_ = {};
  const uint64_t tag = entry.rd + set[kSetTag];
  if (tag >= kTags)
    throw Fault(FaultKind::BadDescriptor,
                "tag " + std::to_string(tag) + " is not below " + std::to_string(kTags));

  PendingTransfer transfer;
  transfer.start_pc = pc;
  transfer.start_bits = entry.bits();
  TransferPlan& plan = transfer.plan;
  plan.descriptor = descriptor_at(address);
  const TransferDescriptor& t = plan.descriptor;
  transfer.load = t.load();
  for (uint32_t a = 0; a < kMaxRank; ++a) plan.origin[a] = static_cast<int64_t>(set[a]);
  if (t.elements != 0) {
    place_tile(plan, set[kSetSpadAddress]);
    const auto index_offsets = place_index_tiles(plan, set);
    uint64_t* assumed = request_->mode == Mode::Timing ? &result_.assumed_indices : nullptr;
    TileIndices indices(t, scratchpad, lanes, index_offsets, assumed);
    check_plan_in_flight(plan);
    plan_blocks(plan, indices);
    check_dram_side(plan);
    if (t.local) {
      normalise(plan.sources);
      check_plan_in_flight(plan);
    }
  }
  if (pending_count_ >= kMostPending)
    throw Fault(FaultKind::PendingTransfer,
                "more than " + std::to_string(kMostPending) + " transfers are under way");
  if (request_->mode != Mode::Functional) record_transfer(plan, address, static_cast<uint32_t>(tag));
  if (t.elements != 0 && !t.load() && request_->mode != Mode::Timing)
    perform_store(plan, request_->slots[t.slot].data, scratchpad, lanes, *bodies_);
  if (t.load()) {
    in_flight.add_targets(plan.cells);
  } else {
    in_flight.add_sources(plan.cells);
  }
  in_flight.add_sources(plan.sources);
  in_flight.begin_transfer();
  ++pending_count_;
  pending_[tag].push_back(std::move(transfer));
}

void Core::dma_wait(const Decoded& entry) {
  const uint64_t tag = x(entry.rs1);
  if (tag >= kTags)
    throw Fault(FaultKind::BadDescriptor,
                "tag " + std::to_string(tag) + " is not below " + std::to_string(kTags));
  if (request_->mode != Mode::Functional) record_wait(static_cast<uint32_t>(tag));
  for (PendingTransfer& transfer : pending_[tag]) {
    const TransferPlan& plan = transfer.plan;
    const TransferDescriptor& t = plan.descriptor;
    if (transfer.load) {
      in_flight.remove_targets(plan.cells);
      for (const InFlight::Range& cell : plan.cells) scratchpad.mark_written(cell.offset, cell.bytes);
      if (t.elements != 0 && request_->mode != Mode::Timing) {
        if (t.local)
          deliver_local(plan, scratchpad, lanes);
        else
          deliver_load(plan, request_->slots[t.slot].data, scratchpad, lanes, *bodies_);
      }
    } else {
      in_flight.remove_sources(plan.cells);
    }
    in_flight.remove_sources(plan.sources);
    in_flight.end_transfer();
    --pending_count_;
  }
  pending_[tag].clear();
}

void Core::in_flight_fault(uint64_t offset, uint64_t bytes, bool write, int32_t lane) {
  Fault fault(FaultKind::InFlight, "", lane, kScratchpadBase + offset);
  for (const auto& transfers : pending_)
    for (const PendingTransfer& transfer : transfers) {
      const bool target = transfer.load && InFlight::overlap(transfer.plan.cells, offset, bytes);
      const bool source =
          write && ((!transfer.load && InFlight::overlap(transfer.plan.cells, offset, bytes)) ||
                    InFlight::overlap(transfer.plan.sources, offset, bytes));
      if (!target && !source) continue;
      fault.other_pc = transfer.start_pc;
      fault.text = std::string(write ? "write to " : "read of ") + hex(kScratchpadBase + offset) + ", " +
                   (target ? "the target of the load" : "a source of the transfer") + " started at pc " +
                   hex(transfer.start_pc) + ", before the wait for its tag";
      throw fault;
    }
  fault.text = "bytes at " + hex(kScratchpadBase + offset) + " are in flight";
  throw fault;
}

void Core::finish_launch() {
  for (size_t tag = 0; tag < pending_.size(); ++tag) {
    if (pending_[tag].empty()) continue;
    const PendingTransfer& transfer = pending_[tag].front();
    Fault fault(FaultKind::PendingTransfer, "the kernel returns while a transfer with tag " +
                                                std::to_string(tag) + " is under way: no wait for its tag");
    fault.pc = transfer.start_pc;
    fault.bits = transfer.start_bits;
    fault.located = true;
    throw fault;
  }
}

}  // namespace npu::engine
