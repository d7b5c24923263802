// Python names of the functional engine. Typed wrapper: pytorchsim/simulator/functional.py; nothing else
// calls these.
#include "bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <tuple>
#include <utility>
#include <vector>

#include "machine.h"
#include "native/bodies.h"
#include "reference_processor.h"
#include "vector_table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

namespace eng = npu::engine;

using ArgumentList = std::vector<uint64_t>;
using Figures = std::vector<uint64_t>;                                     // of WorkCounts
using LatencyRow = std::tuple<uint32_t, ArgumentList, uint64_t, Figures>;  // tile function, arguments, cycles

// A fault as the value (kind, text, pc, bits, lane, address, other_pc) that EngineFault carries.
nb::tuple fault_value(const eng::Fault& fault) {
  return nb::make_tuple(eng::fault_kind_name(fault.kind), fault.text, fault.pc, fault.bits, fault.lane,
                        fault.address, fault.other_pc);
}

using SegmentRows =
    std::vector<std::tuple<uint64_t, nb::bytes, uint64_t, bool>>;  // address, bytes, size, code

std::vector<eng::Segment> to_segments(const SegmentRows& rows) {
  std::vector<eng::Segment> segments;
  for (const auto& [address, bytes, size_bytes, executable] : rows) {
    eng::Segment segment{address, {}, executable};
    const auto* first = reinterpret_cast<const uint8_t*>(bytes.c_str());
    segment.bytes.assign(first, first + bytes.size());
    if (size_bytes > segment.bytes.size()) segment.bytes.resize(size_bytes, 0);
    segments.push_back(std::move(segment));
  }
  return segments;
}

// The engine and what Python adds to it: a flag that another thread or a signal handler may set.
class PyEngine {
 public:
  explicit PyEngine(const eng::MachineParams& params) : machine_(params) {}

  void load(const SegmentRows& segments,
            const std::vector<std::tuple<std::string, uint64_t, uint64_t>>& tile_functions) {
    std::vector<eng::Segment> list = to_segments(segments);
    std::vector<eng::TileFunction> tiles;
    for (const auto& [name, entry, size_bytes] : tile_functions)
      tiles.push_back({name, entry, size_bytes, 0xff});
    machine_.load(eng::ProgramImage(std::move(list), std::move(tiles)));
  }

  eng::LaunchResult launch(uint64_t entry, uint32_t core, uint32_t cores, eng::Mode mode,
                           const std::vector<eng::Slot>& slots, const std::vector<LatencyRow>& latencies) {
    eng::LaunchRequest request{entry, core, cores, mode, slots, {}};
    for (const auto& [tile, arguments, cycles, figures] : latencies) {
      eng::LatencyKey key{tile, {}};
      std::copy_n(arguments.begin(), std::min(arguments.size(), key.arguments.size()), key.arguments.begin());
      eng::TileCost cost{cycles, {}};
      std::copy_n(figures.begin(), std::min(figures.size(), cost.work.figures.size()),
                  cost.work.figures.begin());
      request.latencies.emplace(key, cost);
    }
    if (running_.exchange(true)) throw nb::value_error("the engine is running a launch in another thread");
    interrupt_ = false;
    bool raised = false;  // a Python signal handler raised
    const auto poll = [this, &raised] {
      if (interrupt_) return true;
      const nb::gil_scoped_acquire gil;
      raised = PyErr_CheckSignals() != 0;
      return raised;
    };
    try {
      const nb::gil_scoped_release release;
      eng::LaunchResult result = machine_.launch(request, poll);
      running_ = false;
      return result;
    } catch (const eng::Fault& fault) {
      running_ = false;
      if (raised) throw nb::python_error();
      nb::object type = nb::module_::import_("pytorchsim._native").attr("EngineFault");
      PyErr_SetObject(type.ptr(), fault_value(fault).ptr());
      throw nb::python_error();
    } catch (...) {
      running_ = false;
      throw;
    }
  }

  void interrupt() { interrupt_ = true; }
  eng::Machine& machine() { return machine_; }

 private:
  eng::Machine machine_;
  std::atomic<bool> interrupt_{false};
  std::atomic<bool> running_{false};
};

std::vector<LatencyRow> measured_rows(const eng::LaunchResult& result) {
  std::vector<LatencyRow> rows;
  for (const auto& [key, cost] : result.measured)
    rows.emplace_back(key.tile, ArgumentList(key.arguments.begin(), key.arguments.end()), cost.cycles,
                      Figures(cost.work.figures.begin(), cost.work.figures.end()));
  return rows;
}

using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_reference(nb::module_& module) {
  using R = eng::ReferenceProcessor;
  nb::class_<R>(module, "ReferenceProcessor", "One lane by Spike's own step(), for tests.")
      .def(nb::init<uint32_t, uint64_t>(), "vlen_bits"_a, "slice_bytes"_a)
      .def(
          "run",
          [](R& reference, const SegmentRows& rows, uint64_t entry, const nb::bytes& slice, uint64_t most) {
            const auto* first = reinterpret_cast<const uint8_t*>(slice.c_str());
            std::vector<uint8_t> memory(first, first + slice.size());
            const R::Outcome outcome = reference.run(to_segments(rows), entry, memory, most);
            return std::make_tuple(outcome.finished, outcome.trapped ? outcome.pc : 0,
                                   nb::bytes(reinterpret_cast<const char*>(memory.data()), memory.size()));
          },
          "segments"_a, "entry"_a, "slice"_a, "most_instructions"_a,
          "(finished, pc of the instruction that trapped or 0, the slice afterwards)")
      .def("vector_registers",
           [](const R& reference) {
             const std::vector<uint8_t> bytes = reference.vector_registers();
             return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
           })
      .def("integer_register", &R::integer_register, "number"_a)
      .def("float_register", &R::float_register, "number"_a);
}

}  // namespace

void bind_engine(nb::module_& module) {
  using P = eng::MachineParams;
  module.attr("EngineFault") =
      nb::steal(PyErr_NewException("pytorchsim._native.EngineFault", nullptr, nullptr));
  nb::enum_<eng::Mode>(module, "EngineMode")
      .value("FUNCTIONAL", eng::Mode::Functional)
      .value("FUNCTIONAL_TIMING", eng::Mode::FunctionalTiming)
      .value("TIMING", eng::Mode::Timing);
  nb::class_<P>(module, "EngineParams", "Figures of one core; names as in NpuConfig.")
      .def(nb::init<>())
      .def_rw("lanes", &P::lanes)
      .def_rw("vlen_bits", &P::vlen_bits)
      .def_rw("slice_bytes", &P::slice_bytes)
      .def_rw("stack_reserve_bytes", &P::stack_reserve_bytes)
      .def_rw("array_count", &P::array_count)
      .def_rw("array_queue_entries", &P::array_queue_entries)
      .def_rw("instruction_budget", &P::instruction_budget)
      .def_rw("reference_lanes", &P::reference_lanes)
      .def_rw("body_level", &P::body_level)
      .def_rw("timing", &P::timing);
  nb::class_<eng::Slot>(module, "EngineSlot")
      .def(
          "__init__",
          [](eng::Slot* self, uintptr_t data, int64_t lowest_byte, int64_t end_byte, uint64_t dram_address,
             uint32_t element_bytes, bool writable) {
            new (self) eng::Slot{reinterpret_cast<uint8_t*>(data),
                                 lowest_byte,
                                 end_byte,
                                 dram_address,
                                 element_bytes,
                                 writable};
          },
          "data"_a, "lowest_byte"_a, "end_byte"_a, "dram_address"_a, "element_bytes"_a, "writable"_a);
  nb::class_<eng::LaunchResult>(module, "EngineResult")
      .def_prop_ro(
          "trace", [](eng::LaunchResult& r) -> npu::Trace& { return r.trace; },
          nb::rv_policy::reference_internal)
      .def_ro("stack_bytes", &eng::LaunchResult::stack_bytes)
      .def_ro("assumed_indices", &eng::LaunchResult::assumed_indices)
      .def_prop_ro("scalar_instructions", [](const eng::LaunchResult& r) { return r.counts.scalar; })
      .def_prop_ro("vector_instructions", [](const eng::LaunchResult& r) { return r.counts.vector; })
      .def_prop_ro("dma_instructions", [](const eng::LaunchResult& r) { return r.counts.dma; })
      .def_prop_ro("array_instructions", [](const eng::LaunchResult& r) { return r.counts.array; })
      .def_prop_ro("measured", &measured_rows);
  nb::class_<PyEngine>(module, "Engine", "The functional engine of one core.")
      .def(nb::init<const P&>(), "params"_a)
      .def("load", &PyEngine::load, "segments"_a, "tile_functions"_a)
      .def("launch", &PyEngine::launch, "entry"_a, "core"_a, "cores"_a, "mode"_a, "slots"_a, "latencies"_a)
      .def("interrupt", &PyEngine::interrupt)
      .def(
          "disassemble", [](PyEngine& e, uint32_t bits) { return e.machine().disassemble(bits); }, "bits"_a)
      .def("executed_vector_instructions",
           [](PyEngine& e) { return e.machine().executed_vector_instructions(); })
      .def(
          "slice",
          [](PyEngine& e, uint32_t lane) {
            const P& p = e.machine().params();
            if (lane >= p.lanes) throw nb::index_error("no such lane");
            return nb::bytes(reinterpret_cast<const char*>(e.machine().slice(lane)), p.slice_bytes);
          },
          "lane"_a)
      .def(
          "vector_register",
          [](PyEngine& e, uint32_t number, uint32_t lane) {
            const P& p = e.machine().params();
            if (lane >= p.lanes || number >= 32) throw nb::index_error("no such lane or register");
            return nb::bytes(reinterpret_cast<const char*>(e.machine().vector_register(number, lane)),
                             p.vlen_bits / 8);
          },
          "number"_a, "lane"_a);
  module.def(
      "vector_instructions",
      [] {
        std::vector<std::tuple<std::string, uint32_t, uint32_t>> rows;
        for (const eng::VectorRow& row : eng::vector_table())
          rows.emplace_back(row.name, row.match, row.mask);
        return rows;
      },
      "(Spike's name, match, mask) of every vector instruction it has a handler for");
  module.def(
      "special_function",
      [](uint8_t function, const Floats& values, Floats results, uint32_t level) {
        if (function > static_cast<uint8_t>(npu::SfuFunction::Exp) || values.shape(0) != results.shape(0))
          throw nb::value_error("unknown function, or lengths differ");
        eng::bodies(level).special_function(static_cast<npu::SfuFunction>(function), values.data(),
                                            values.shape(0), results.data());
      },
      "function"_a, "values"_a, "results"_a, "level"_a = 0);
}

NB_MODULE(_native, module) {
  module.doc() = "Functional engine and timing simulator of the NPU. Use pytorchsim.simulator.";
  bind_togsim(module);
  bind_engine(module);
  bind_reference(module);
}
