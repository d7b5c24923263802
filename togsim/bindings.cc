// Python names of the timing simulator. Typed wrapper: pytorchsim/simulator/timing.py; nothing else calls
// these.
#include "bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "burst_count.h"
#include "lane_core.h"
#include "packet_probe.h"
#include "simulator.h"
#include "trace.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// (base address, bytes of a run, [(count, stride in bytes), ...] outermost first)
using RunTuple = std::tuple<uint64_t, uint64_t, std::vector<std::pair<uint64_t, int64_t>>>;

npu::StridedRuns to_runs(const RunTuple& tuple) {
  npu::StridedRuns runs;
  runs.base = std::get<0>(tuple);
  runs.run_bytes = std::get<1>(tuple);
  for (const auto& [count, stride] : std::get<2>(tuple)) runs.dims.push_back({count, stride});
  return runs;
}

RunTuple from_runs(const npu::StridedRuns& runs) {
  std::vector<std::pair<uint64_t, int64_t>> dims;
  for (const auto& dim : runs.dims) dims.emplace_back(dim.count, dim.stride_bytes);
  return {runs.base, runs.run_bytes, std::move(dims)};
}

void add_start(npu::Trace& trace, uint32_t tag, bool store, const std::vector<RunTuple>& runs,
               std::optional<uint64_t> scratchpad_bytes) {
  npu::Transfer transfer;
  transfer.store = store;
  for (const RunTuple& tuple : runs) {
    transfer.runs.push_back(to_runs(tuple));
    uint64_t bytes = transfer.runs.back().run_bytes;
    for (const auto& dim : transfer.runs.back().dims) bytes *= dim.stride_bytes == 0 ? 1 : dim.count;
    transfer.dram_bytes += bytes;
  }
  transfer.scratchpad_bytes = scratchpad_bytes.value_or(transfer.dram_bytes);
  trace.ops.push_back({npu::TraceOp::Kind::Start, tag, static_cast<uint32_t>(trace.transfers.size()), 0});
  trace.transfers.push_back(std::move(transfer));
}

// Tile function index -> calls, cycles.
std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> tile_totals(const npu::Trace& trace) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> totals;
  for (const npu::TraceOp& op : trace.ops) {
    if (op.kind != npu::TraceOp::Kind::Tile) continue;
    auto& [calls, cycles] = totals[op.index];
    ++calls;
    cycles += op.cycles;
  }
  std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> rows;
  for (const auto& [index, total] : totals) rows.emplace_back(index, total.first, total.second);
  return rows;
}

void bind_trace(nb::module_& module) {
  using npu::Trace, npu::TraceOp;
  nb::class_<Trace>(module, "Trace", "Operations of one launch on one core, in program order.")
      .def(nb::init<>())
      .def(
          "scalar", [](Trace& t, uint64_t cycles) { t.ops.push_back({TraceOp::Kind::Scalar, 0, 0, cycles}); },
          "cycles"_a)
      .def(
          "tile",
          [](Trace& t, uint32_t index, uint64_t cycles) {
            t.ops.push_back({TraceOp::Kind::Tile, 0, index, cycles});
          },
          "index"_a, "cycles"_a)
      .def("start", &add_start, "tag"_a, "store"_a, "runs"_a, "scratchpad_bytes"_a = nb::none())
      .def(
          "wait", [](Trace& t, uint32_t tag) { t.ops.push_back({TraceOp::Kind::Wait, tag, 0, 0}); }, "tag"_a)
      .def("__len__", [](const Trace& t) { return t.ops.size(); })
      .def("tile_totals", &tile_totals)
      .def("operations",
           [](const Trace& t) {
             static constexpr const char* kNames[] = {"scalar", "tile", "start", "wait"};
             std::vector<std::tuple<std::string, uint32_t, uint32_t, uint64_t>> rows;
             for (const TraceOp& op : t.ops)
               rows.emplace_back(kNames[static_cast<int>(op.kind)], op.tag, op.index, op.cycles);
             return rows;
           })
      .def("transfers", [](const Trace& t) {
        std::vector<std::tuple<bool, uint64_t, uint64_t, std::vector<RunTuple>>> rows;
        for (const npu::Transfer& transfer : t.transfers) {
          std::vector<RunTuple> runs;
          for (const auto& block : transfer.runs) runs.push_back(from_runs(block));
          rows.emplace_back(transfer.store, transfer.dram_bytes, transfer.scratchpad_bytes, std::move(runs));
        }
        return rows;
      });
}

void bind_lane_core(nb::module_& module) {
  using M = npu::MinorParams;
  auto minor = nb::class_<M>(module, "MinorParams", "Figures of gem5's MinorCPU; names as in NpuConfig.")
                   .def(nb::init<>());
  minor.def_rw("fetch_line_bytes", &M::fetch_line_bytes);
  minor.def_rw("fetches_in_flight", &M::fetches_in_flight);
  minor.def_rw("fetch_buffer_lines", &M::fetch_buffer_lines);
  minor.def_rw("decode_width", &M::decode_width);
  minor.def_rw("decode_buffer_entries", &M::decode_buffer_entries);
  minor.def_rw("issue_buffer_entries", &M::issue_buffer_entries);
  minor.def_rw("issue_width", &M::issue_width);
  minor.def_rw("memory_issue_width", &M::memory_issue_width);
  minor.def_rw("commit_width", &M::commit_width);
  minor.def_rw("memory_commit_width", &M::memory_commit_width);
  minor.def_rw("branch_delay_cycles", &M::branch_delay_cycles);
  minor.def_rw("int_units", &M::int_units);
  minor.def_rw("int_cycles", &M::int_cycles);
  minor.def_rw("int_early_cycles", &M::int_early_cycles);
  minor.def_rw("mul_cycles", &M::mul_cycles);
  minor.def_rw("div_cycles", &M::div_cycles);
  minor.def_rw("vector_units", &M::vector_units);
  minor.def_rw("vector_cycles", &M::vector_cycles);
  minor.def_rw("vector_early_cycles", &M::vector_early_cycles);
  minor.def_rw("memory_units", &M::memory_units);
  minor.def_rw("memory_cycles", &M::memory_cycles);
  minor.def_rw("memory_early_cycles", &M::memory_early_cycles);
  minor.def_rw("load_assumed_cycles", &M::load_assumed_cycles);
  minor.def_rw("memory_width_bytes", &M::memory_width_bytes);
  minor.def_rw("cache_cycles", &M::cache_cycles);
  minor.def_rw("accesses_in_memory", &M::accesses_in_memory);
  minor.def_rw("transfer_entries", &M::transfer_entries);
  minor.def_rw("store_buffer_entries", &M::store_buffer_entries);
  minor.def_rw("stores_per_cycle", &M::stores_per_cycle);

  using P = npu::LaneCoreParams;
  nb::class_<P>(module, "LaneCoreParams", "Figures of the lane core; names as in NpuConfig.")
      .def(nb::init<>())
      .def_rw("lanes", &P::lanes)
      .def_rw("vlen_bits", &P::vlen_bits)
      .def_rw("datapath_bits", &P::datapath_bits)
      .def_rw("issue_width", &P::issue_width)
      .def_rw("load_ports", &P::load_ports)
      .def_rw("store_ports", &P::store_ports)
      .def_rw("port_bytes", &P::port_bytes)
      .def_rw("sfu_elements_per_cycle", &P::sfu_elements_per_cycle)
      .def_rw("array_count", &P::array_count)
      .def_rw("array_queue_entries", &P::array_queue_entries)
      .def_rw("int_alu_cycles", &P::int_alu_cycles)
      .def_rw("int_mul_cycles", &P::int_mul_cycles)
      .def_rw("int_div_cycles", &P::int_div_cycles)
      .def_rw("fp_alu_cycles", &P::fp_alu_cycles)
      .def_rw("fp_move_cycles", &P::fp_move_cycles)
      .def_rw("fp_div_cycles", &P::fp_div_cycles)
      .def_rw("taken_branch_cycles", &P::taken_branch_cycles)
      .def_rw("scalar_load_cycles", &P::scalar_load_cycles)
      .def_rw("vector_config_cycles", &P::vector_config_cycles)
      .def_rw("vector_alu_cycles", &P::vector_alu_cycles)
      .def_rw("vector_mul_cycles", &P::vector_mul_cycles)
      .def_rw("vector_div_cycles_per_beat", &P::vector_div_cycles_per_beat)
      .def_rw("vector_fp_cycles", &P::vector_fp_cycles)
      .def_rw("vector_fp_div_cycles_per_beat", &P::vector_fp_div_cycles_per_beat)
      .def_rw("vector_permute_cycles", &P::vector_permute_cycles)
      .def_rw("scratchpad_load_cycles", &P::scratchpad_load_cycles)
      .def_rw("scratchpad_store_cycles", &P::scratchpad_store_cycles)
      .def_rw("sfu_cycles", &P::sfu_cycles)
      .def_rw("xlu_cycles", &P::xlu_cycles)
      .def_rw("vector_units", &P::vector_units)
      .def_rw("chaining", &P::chaining)
      .def_rw("use_minor", &P::use_minor)
      .def_rw("minor", &P::minor);

  nb::class_<npu::LaneCore>(module, "LaneCore", "The scoreboard alone, fed instruction by instruction.")
      .def(nb::init<const P&>(), "params"_a)
      .def("begin", &npu::LaneCore::begin)
      .def(
          "retire",
          [](npu::LaneCore& core, uint32_t bits, uint32_t vl, uint8_t sew_bits, float lmul, uint64_t address,
             uint64_t pc) { core.retire(npu::decode_timing(bits), {vl, sew_bits, lmul}, address, pc); },
          "bits"_a, "vl"_a = 0, "sew_bits"_a = 32, "lmul"_a = 1.0f, "address"_a = 0, "pc"_a = 0)
      .def("taken_branch", &npu::LaneCore::taken_branch)
      .def(
          "work",
          [](const npu::LaneCore& core, bool drained) {
            return npu::timing::work_statistics(core.work(drained));
          },
          "drained"_a = true)
      .def("elapsed", &npu::LaneCore::elapsed)
      .def("drain", &npu::LaneCore::drain);
}

void bind_machine(nb::module_& module) {
  using npu::timing::TimingParams, npu::timing::DramGeometry, npu::timing::DramTiming;
  nb::class_<DramGeometry>(module, "DramGeometry", "Banks and address mapping; names as in NpuConfig.")
      .def_rw("channels", &DramGeometry::channels)
      .def_rw("pseudo_channels", &DramGeometry::pseudo_channels)
      .def_rw("bank_groups", &DramGeometry::bank_groups)
      .def_rw("banks_per_group", &DramGeometry::banks_per_group)
      .def_rw("row_bytes", &DramGeometry::row_bytes)
      .def_rw("burst_bytes", &DramGeometry::burst_bytes)
      .def_rw("mapping", &DramGeometry::mapping)
      .def_rw("channel_hash", &DramGeometry::channel_hash)
      .def_rw("bank_hash", &DramGeometry::bank_hash);
  nb::class_<DramTiming>(module, "DramTiming", "Clocks; names as in NpuConfig.")
      .def_rw("t_burst_clocks", &DramTiming::t_burst_clocks)
      .def_rw("t_cl_clocks", &DramTiming::t_cl_clocks)
      .def_rw("t_cwl_clocks", &DramTiming::t_cwl_clocks)
      .def_rw("t_rcd_read_clocks", &DramTiming::t_rcd_read_clocks)
      .def_rw("t_rcd_write_clocks", &DramTiming::t_rcd_write_clocks)
      .def_rw("t_rp_clocks", &DramTiming::t_rp_clocks)
      .def_rw("t_ras_clocks", &DramTiming::t_ras_clocks)
      .def_rw("t_wr_clocks", &DramTiming::t_wr_clocks)
      .def_rw("t_rtp_clocks", &DramTiming::t_rtp_clocks)
      .def_rw("t_ccd_s_clocks", &DramTiming::t_ccd_s_clocks)
      .def_rw("t_ccd_l_clocks", &DramTiming::t_ccd_l_clocks)
      .def_rw("t_rrd_s_clocks", &DramTiming::t_rrd_s_clocks)
      .def_rw("t_rrd_l_clocks", &DramTiming::t_rrd_l_clocks)
      .def_rw("t_faw_clocks", &DramTiming::t_faw_clocks)
      .def_rw("t_wtr_s_clocks", &DramTiming::t_wtr_s_clocks)
      .def_rw("t_wtr_l_clocks", &DramTiming::t_wtr_l_clocks)
      .def_rw("t_rtw_clocks", &DramTiming::t_rtw_clocks)
      .def_rw("t_rfc_clocks", &DramTiming::t_rfc_clocks)
      .def_rw("t_refi_clocks", &DramTiming::t_refi_clocks)
      .def_rw("refresh_per_bank", &DramTiming::refresh_per_bank)
      .def_rw("refresh", &DramTiming::refresh);
  module.def(
      "locate_burst",
      [](const DramGeometry& geometry, uint64_t burst) {
        const auto at = npu::timing::AddressMap(geometry).locate(burst);
        return std::tuple(at.unit, at.bank, at.row);
      },
      "geometry"_a, "burst"_a, "Data bus, bank and row of a burst, by its number.");
  using npu::timing::NetworkParams, npu::timing::NetworkKind;
  nb::enum_<NetworkKind>(module, "NetworkKind")
      .value("IDEAL", NetworkKind::Ideal)
      .value("CROSSBAR", NetworkKind::Crossbar)
      .value("MESH", NetworkKind::Mesh);
  nb::class_<NetworkParams>(module, "NetworkParams", "Names as in NpuConfig.")
      .def_rw("kind", &NetworkParams::kind)
      .def_rw("latency_cycles", &NetworkParams::latency_cycles)
      .def_rw("hop_cycles", &NetworkParams::hop_cycles)
      .def_rw("columns", &NetworkParams::columns)
      .def_rw("link_bytes_per_cycle", &NetworkParams::link_bytes_per_cycle)
      .def_rw("header_bytes", &NetworkParams::header_bytes)
      .def_rw("buffer_packets", &NetworkParams::buffer_packets)
      .def_rw("separate_responses", &NetworkParams::separate_responses);
  module.def(
      "probe_network",
      [](const NetworkParams& params, uint32_t cores, uint32_t memories,
         const std::vector<std::tuple<uint32_t, uint32_t, uint32_t, bool, uint64_t>>& packets,
         const std::vector<std::pair<uint32_t, uint64_t>>& closed) {
        std::vector<npu::timing::ProbePacket> list;
        for (const auto& [source, target, bytes, response, cycle] : packets)
          list.push_back({source, target, bytes, response, cycle});
        return npu::timing::probe_network(cores, memories, params, list, closed);
      },
      "params"_a, "cores"_a, "memories"_a, "packets"_a,
      "closed"_a = std::vector<std::pair<uint32_t, uint64_t>>(),
      "Cycles in which packets (source, target, bytes, response, cycle) arrive.");
  using npu::timing::L2Params;
  nb::class_<L2Params>(module, "L2Params", "Names as in NpuConfig.")
      .def_rw("shared", &L2Params::shared)
      .def_rw("sets", &L2Params::sets)
      .def_rw("ways", &L2Params::ways)
      .def_rw("line_bytes", &L2Params::line_bytes)
      .def_rw("bytes_per_cycle", &L2Params::bytes_per_cycle)
      .def_rw("latency_cycles", &L2Params::latency_cycles);
  const auto dma = [](TimingParams& p) -> npu::timing::DmaParams& { return p.system.dma; };
  const auto ideal = [](TimingParams& p) -> npu::timing::IdealMemoryParams& { return p.system.ideal; };
  nb::class_<TimingParams>(module, "TimingParams", "Figures of DMA, network and DRAM; names as in NpuConfig.")
      .def(nb::init<>())
      .def_rw("launch_cycles", &TimingParams::launch_cycles)
      .def_prop_rw(
          "exact", [](TimingParams& p) { return p.system.exact; },
          [](TimingParams& p, bool v) { p.system.exact = v; })
      .def_prop_ro(
          "network", [](TimingParams& p) -> NetworkParams& { return p.system.network; },
          nb::rv_policy::reference_internal)
      .def_prop_ro(
          "l2", [](TimingParams& p) -> L2Params& { return p.system.l2; }, nb::rv_policy::reference_internal)
      .def_prop_rw(
          "dma_issue_cycles", [dma](TimingParams& p) { return dma(p).issue_cycles; },
          [dma](TimingParams& p, uint64_t v) { dma(p).issue_cycles = v; })
      .def_prop_rw(
          "dma_scratchpad_bytes_per_cycle",
          [dma](TimingParams& p) { return dma(p).scratchpad_bytes_per_cycle; },
          [dma](TimingParams& p, uint64_t v) { dma(p).scratchpad_bytes_per_cycle = v; })
      .def_prop_rw(
          "dma_max_outstanding", [dma](TimingParams& p) { return dma(p).max_outstanding; },
          [dma](TimingParams& p, uint64_t v) { dma(p).max_outstanding = v; })
      .def_prop_rw(
          "dram_banked", [](TimingParams& p) { return p.system.banked; },
          [](TimingParams& p, bool v) { p.system.banked = v; })
      .def_prop_rw(
          "dram_bytes_per_cycle", [ideal](TimingParams& p) { return ideal(p).bytes_per_cycle; },
          [ideal](TimingParams& p, double v) { ideal(p).bytes_per_cycle = v; })
      .def_prop_rw(
          "dram_latency_cycles", [ideal](TimingParams& p) { return ideal(p).latency_cycles; },
          [ideal](TimingParams& p, uint64_t v) { ideal(p).latency_cycles = v; })
      .def_prop_rw(
          "dram_burst_bytes", [ideal](TimingParams& p) { return ideal(p).burst_bytes; },
          [ideal](TimingParams& p, uint32_t v) { ideal(p).burst_bytes = v; })
      .def_prop_rw(
          "dram_clock_cycles",
          [](TimingParams& p) {
            return static_cast<double>(p.system.banks.clock_ticks) / npu::timing::kTicksPerCycle;
          },
          [](TimingParams& p, double v) {
            p.system.banks.clock_ticks =
                static_cast<npu::timing::Tick>(v * npu::timing::kTicksPerCycle + 0.5);
          })
      .def_prop_rw(
          "dram_queue_entries", [](TimingParams& p) { return p.system.banks.queue_entries; },
          [](TimingParams& p, uint32_t v) { p.system.banks.queue_entries = v; })
      .def_prop_rw(
          "dram_controller_cycles", [](TimingParams& p) { return p.system.controller_cycles; },
          [](TimingParams& p, uint64_t v) { p.system.controller_cycles = v; })
      .def_prop_ro(
          "dram_geometry", [](TimingParams& p) -> DramGeometry& { return p.system.geometry; },
          nb::rv_policy::reference_internal)
      .def_prop_ro(
          "dram_timing", [](TimingParams& p) -> DramTiming& { return p.system.banks.timing; },
          nb::rv_policy::reference_internal);
}

void bind_simulator(nb::module_& module) {
  using npu::timing::TimingParams, npu::timing::TimingResult;
  bind_machine(module);

  nb::class_<npu::timing::CoreStats>(module, "CoreStats")
      .def_ro("tile_cycles", &npu::timing::CoreStats::tile_cycles)
      .def_ro("scalar_cycles", &npu::timing::CoreStats::scalar_cycles)
      .def_ro("load_wait_cycles", &npu::timing::CoreStats::load_wait_cycles)
      .def_ro("store_wait_cycles", &npu::timing::CoreStats::store_wait_cycles)
      .def_ro("end_cycle", &npu::timing::CoreStats::end_cycle);
  nb::class_<npu::timing::DmaStats>(module, "DmaStats")
      .def_ro("transfers", &npu::timing::DmaStats::transfers)
      .def_ro("bytes_read", &npu::timing::DmaStats::bytes_read)
      .def_ro("bytes_written", &npu::timing::DmaStats::bytes_written)
      .def_ro("bursts_read", &npu::timing::DmaStats::bursts_read)
      .def_ro("bursts_written", &npu::timing::DmaStats::bursts_written)
      .def_ro("scratchpad_bytes", &npu::timing::DmaStats::scratchpad_bytes);
  nb::class_<TimingResult>(module, "TimingResult")
      .def_ro("cycles", &TimingResult::cycles)
      .def_ro("cores", &TimingResult::cores)
      .def_ro("dma", &TimingResult::dma)
      .def_ro("components", &TimingResult::components)
      .def_prop_ro("dram_read_bursts", [](const TimingResult& r) { return r.memory.read_bursts; })
      .def_prop_ro("dram_written_bursts", [](const TimingResult& r) { return r.memory.written_bursts; })
      .def_prop_ro("dram_busy_cycles", [](const TimingResult& r) { return r.memory.busy_cycles; });

  nb::class_<npu::timing::L2Tags>(module, "L2Tags", "What the L2 holds, from launch to launch.")
      .def(nb::init<const npu::timing::L2Params&, uint32_t>(), "params"_a, "burst_bytes"_a)
      .def("begin", &npu::timing::L2Tags::begin, "resident"_a);

  module.def(
      "simulate",
      [](const TimingParams& params, const std::vector<const npu::Trace*>& traces, npu::timing::L2Tags* l2) {
        const auto stop = [] {  // a Python signal handler raised: Ctrl-C
          const nb::gil_scoped_acquire gil;
          return PyErr_CheckSignals() != 0;
        };
        try {
          const nb::gil_scoped_release release;
          return npu::timing::simulate(params, traces, stop, l2);
        } catch (const npu::timing::Stopped&) {
          throw nb::python_error();
        }
      },
      "params"_a, "traces"_a, "l2"_a = nb::none());
  module.def(
      "count_bursts",
      [](const RunTuple& runs, uint32_t burst_bytes) {
        return npu::timing::count_bursts(to_runs(runs), burst_bytes);
      },
      "runs"_a, "burst_bytes"_a);
}

}  // namespace

void bind_togsim(nb::module_& module) {
  bind_trace(module);
  bind_lane_core(module);
  bind_simulator(module);
}
