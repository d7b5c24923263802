// Python names of the figures of DMA, network, L2 and DRAM.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "address_map.h"
#include "bindings.h"
#include "packet_probe.h"
#include "simulator.h"

namespace nb = nanobind;
using namespace nb::literals;

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
