// Python names of the lane core and its figures.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "lane_core.h"
#include "simulator.h"

namespace nb = nanobind;
using namespace nb::literals;

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
