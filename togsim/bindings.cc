// Python names of traces and of the simulator that plays them. Typed wrapper: pytorchsim/simulator/timing.py;
// nothing else calls these.
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
