// The trace: cycles from the lane core's scoreboard, transfers and waits, in program order.
#include <cstring>

#include "dma_union.h"
#include "engine_core.h"

namespace npu::engine {

void Core::retire(const Decoded& entry, uint64_t pc) {
  uint64_t address = 0;
  insn_t insn = entry.insn;
  if (entry.kind == Kind::ScalarLoad) address = x(entry.rs1) + static_cast<uint64_t>(insn.i_imm());
  if (entry.kind == Kind::ScalarStore) address = x(entry.rs1) + static_cast<uint64_t>(insn.s_imm());
  if (entry.kind == Kind::VectorMemory) address = x(entry.rs1);
  lane_core_.retire(entry.timing, VectorState{vl_, static_cast<uint8_t>(sew_bytes_ * 8), lmul_}, address, pc);
}

void Core::flush_scalar_cycles() {
  const uint64_t cycles = lane_core_.elapsed();
  if (cycles != 0) result_.trace.ops.push_back({TraceOp::Kind::Scalar, 0, 0, cycles});
  result_.trace.work += lane_core_.work(false);
  lane_core_.begin();
}

bool Core::enter_tile(uint32_t tile) {
  flush_scalar_cycles();
  tile_key_ = LatencyKey{tile - 1, {}};
  const uint8_t live = program.tile_functions()[tile - 1].live_arguments;
  for (uint32_t i = 0; i < 8; ++i) tile_key_.arguments[i] = (live >> i & 1) != 0 ? x(10 + i) : 0;
  auto known = request_->latencies.find(tile_key_);
  bool is_known = known != request_->latencies.end();
  if (!is_known) {
    known = result_.measured.find(tile_key_);
    is_known = known != result_.measured.end();
  }
  if (is_known) {
    result_.trace.ops.push_back({TraceOp::Kind::Tile, 0, tile - 1, known->second.cycles});
    result_.trace.work += known->second.work;
    if (request_->mode == Mode::Timing) return false;
  } else if (request_->mode == Mode::Timing && !scratchpad_zeroed_) {
    // What the function computes is of no interest, but it must not stumble over what an earlier one left.
    // The stack above the tiles holds the control function's own values.
    const uint64_t bytes = stack_begin_ - kScratchpadBase;
    for (uint32_t lane = 0; lane < lanes; ++lane) std::memset(scratchpad.lane(lane), 0, bytes);
    scratchpad.mark_written(0, bytes);
    scratchpad_zeroed_ = true;
  }
  current_tile_ = tile;
  tile_measured_ = !is_known;
  tile_return_pc_ = x(1);
  return true;
}

void Core::leave_tile() {
  if (tile_measured_) {
    const TileCost cost{lane_core_.drain(), lane_core_.work(true)};
    result_.measured.emplace(tile_key_, cost);
    result_.trace.ops.push_back({TraceOp::Kind::Tile, 0, current_tile_ - 1, cost.cycles});
    result_.trace.work += cost.work;
    lane_core_.begin();
  }
  current_tile_ = 0;
  tile_measured_ = false;
}

void Core::record_wait(uint32_t tag) {
  flush_scalar_cycles();
  result_.trace.ops.push_back({TraceOp::Kind::Wait, tag, 0, 0});
}

void Core::record_transfer(const TransferPlan& plan, uint64_t descriptor_address, uint32_t tag) {
  const TransferDescriptor& t = plan.descriptor;
  flush_scalar_cycles();
  Transfer transfer;
  transfer.store = !t.load();
  transfer.element_bytes = t.element_bytes;
  transfer.descriptor_address = descriptor_address;
  if (t.elements != 0) {
    const int64_t all_lanes = t.lane_cells * lanes;
    transfer.scratchpad_bytes = static_cast<uint64_t>(t.load() ? all_lanes : plan.existing) * t.element_bytes;
    if (t.local) transfer.scratchpad_bytes += static_cast<uint64_t>(plan.existing) * t.element_bytes;
    for (const Block& block : plan.blocks) {
      if (t.local) break;
      transfer.runs.push_back(block_runs(t, block, request_->slots[t.slot].dram_address));
    }
    // Bounds cut windows into blocks that overlap. What indices gather is fetched element by element.
    if (t.load() && t.index_tile_count == 0) unite_blocks(transfer.runs);
    for (const StridedRuns& runs : transfer.runs) {
      uint64_t bytes = runs.run_bytes;
      for (const StridedRuns::Dim& dim : runs.dims) bytes *= dim.count;
      transfer.dram_bytes += bytes;
    }
  }
  result_.trace.ops.push_back(
      {TraceOp::Kind::Start, tag, static_cast<uint32_t>(result_.trace.transfers.size()), 0});
  result_.trace.transfers.push_back(std::move(transfer));
}

}  // namespace npu::engine
