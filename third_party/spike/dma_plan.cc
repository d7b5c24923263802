#include "dma_plan.h"

#include <algorithm>
#include <cstdlib>

#include "faults.h"

namespace npu::engine {

namespace {

using Wide = __int128;

int64_t narrow(Wide value) {
  const auto result = static_cast<int64_t>(value);
  if (result != value) throw Fault(FaultKind::BadDescriptor, "an element's position overflows 64 bits");
  return result;
}

Wide floor_divide(Wide a, Wide b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

// A bound as base + sum step[a] * i[a], origins folded in.
struct Constraint {
  Wide base;
  std::array<Wide, kMaxRank> steps;
  Wide extent;
};

class Planner {
 public:
  Planner(TransferPlan& plan, IndexSource& indices) : plan_(plan), t_(plan.descriptor), indices_(indices) {}

  void run() {
    if (t_.elements == 0) return;
    collect_constraints();
    choose_iterated();
    walk(0);
  }

 private:
  // Bounds that hold everywhere in the tile are dropped: an interior tile is one block.
  void collect_constraints() {
    for (uint32_t b = 0; b < t_.bound_count; ++b) {
      const TransferDescriptor::Bound& bound = t_.bounds[b];
      Constraint c{bound.base, {}, bound.extent};
      Wide least = 0, most = 0;
      for (uint32_t a = 0; a < t_.rank; ++a) {
        c.base += Wide{bound.steps[a]} * plan_.origin[a];
        c.steps[a] = t_.axes[a].size > 1 ? bound.steps[a] : 0;
        const Wide reach = c.steps[a] * (t_.axes[a].size - 1);
        (reach < 0 ? least : most) += reach;
      }
      if (c.base + least < 0 || c.base + most >= c.extent) constraints_.push_back(c);
    }
  }

  // Axes that are walked index by index, so that what is left of every bound involves one axis at most.
  void choose_iterated() {
    for (uint32_t i = 0; i < t_.index_tile_count; ++i) iterated_ |= t_.index_tiles[i].axes_mask;
    for (const Constraint& c : constraints_) {
      uint32_t largest = kMaxRank, active = 0;
      for (uint32_t a = 0; a < t_.rank; ++a) {
        if (c.steps[a] == 0 || (iterated_ >> a & 1) != 0) continue;
        active |= 1u << a;
        if (largest == kMaxRank || t_.axes[a].size > t_.axes[largest].size) largest = a;
      }
      if (largest != kMaxRank) iterated_ |= active & ~(1u << largest);
    }
    if (t_.load()) return;
    // A store must keep the listed order where it may meet an element twice: no free axis outside an iterated
    // one.
    for (uint32_t a = 0; a + 1 < t_.rank; ++a)
      if ((iterated_ >> (a + 1)) != 0 && t_.axes[a].size > 1) iterated_ |= 1u << a;
  }

  void walk(uint32_t axis) {
    while (axis < t_.rank && (iterated_ >> axis & 1) == 0) ++axis;
    if (axis == t_.rank) return add_block();
    for (int64_t i = 0; i < t_.axes[axis].size; ++i) {
      point_[axis] = static_cast<uint32_t>(i);
      walk(axis + 1);
    }
    point_[axis] = 0;
  }

  void add_block() {
    Block block;
    for (uint32_t a = 0; a < t_.rank; ++a) {
      const bool fixed = (iterated_ >> a & 1) != 0;
      block.lo[a] = fixed ? point_[a] : 0;
      block.n[a] = fixed ? 1 : static_cast<uint32_t>(t_.axes[a].size);
    }
    for (const Constraint& c : constraints_)
      if (!clip(c, block)) return;
    Wide first = t_.local ? 0 : t_.offset;
    int64_t size = 1;
    for (uint32_t a = 0; a < t_.rank; ++a) {
      first += Wide{t_.axes[a].dram_stride} * (Wide{plan_.origin[a]} + block.lo[a]);
      size *= block.n[a];
    }
    for (uint32_t i = 0; i < t_.index_tile_count; ++i)
      first += Wide{t_.index_tiles[i].dram_stride} * indices_.index(i, block.lo);
    block.dram_first = narrow(first);
    plan_.blocks.push_back(block);
    plan_.existing += size;
  }

  // Cuts the one free axis of the bound; false if nothing is left.
  bool clip(const Constraint& c, Block& block) const {
    Wide base = c.base;
    uint32_t free_axis = kMaxRank;
    for (uint32_t a = 0; a < t_.rank; ++a) {
      if (c.steps[a] == 0) continue;
      if ((iterated_ >> a & 1) != 0)
        base += c.steps[a] * point_[a];
      else
        free_axis = a;
    }
    if (free_axis == kMaxRank) return base >= 0 && base < c.extent;
    const Wide step = c.steps[free_axis];
    // 0 <= base + step * i <= extent - 1
    const Wide top = c.extent - 1 - base, bottom = -base;
    Wide first = step > 0 ? -floor_divide(-bottom, step) : -floor_divide(-top, step);
    Wide last = step > 0 ? floor_divide(top, step) : floor_divide(bottom, step);
    first = std::max<Wide>(first, block.lo[free_axis]);
    last = std::min<Wide>(last, Wide{block.lo[free_axis]} + block.n[free_axis] - 1);
    if (first > last) return false;
    block.lo[free_axis] = static_cast<uint32_t>(first);
    block.n[free_axis] = static_cast<uint32_t>(last - first + 1);
    return true;
  }

  TransferPlan& plan_;
  const TransferDescriptor& t_;
  IndexSource& indices_;
  std::vector<Constraint> constraints_;
  uint32_t iterated_ = 0;
  std::array<uint32_t, kMaxRank> point_ = {};
};

}  // namespace

void plan_blocks(TransferPlan& plan, IndexSource& indices) { Planner(plan, indices).run(); }

bool covered_ranges(uint64_t base, std::vector<StridedAxis> axes, uint32_t element_bytes, uint64_t limit,
                    std::vector<InFlight::Range>& ranges) {
  Wide low = base, high = Wide{base} + element_bytes;
  for (StridedAxis& axis : axes) {
    const Wide reach = Wide{axis.stride_bytes} * (axis.count - 1);
    (reach < 0 ? low : high) += reach;
    axis.stride_bytes = std::abs(axis.stride_bytes);
  }
  if (low < 0 || high > Wide{limit}) return false;
  std::erase_if(axes, [](const StridedAxis& axis) { return axis.count == 1 || axis.stride_bytes == 0; });
  std::sort(axes.begin(), axes.end(),
            [](const StridedAxis& a, const StridedAxis& b) { return a.stride_bytes < b.stride_bytes; });
  auto run = static_cast<int64_t>(element_bytes);
  size_t inner = 0;
  while (inner < axes.size() &&
         axes[inner].stride_bytes - run < static_cast<int64_t>(kInFlightGranuleBytes)) {
    run += axes[inner].stride_bytes * (axes[inner].count - 1);
    ++inner;
  }
  std::vector<uint64_t> starts{static_cast<uint64_t>(low)};
  for (size_t a = inner; a < axes.size(); ++a) {
    const size_t before = starts.size();
    for (int64_t i = 1; i < axes[a].count; ++i)
      for (size_t s = 0; s < before; ++s)
        starts.push_back(starts[s] + static_cast<uint64_t>(i * axes[a].stride_bytes));
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  }
  for (const uint64_t start : starts) ranges.push_back({start, static_cast<uint64_t>(run)});
  return true;
}

StridedRuns block_runs(const TransferDescriptor& t, const Block& block, uint64_t dram_address) {
  StridedRuns runs;
  runs.base = dram_address + static_cast<uint64_t>(block.dram_first) * t.element_bytes;
  runs.run_bytes = t.element_bytes;
  for (uint32_t a = 0; a < t.rank; ++a) {
    if (block.n[a] == 1 || t.axes[a].dram_stride == 0) continue;
    int64_t stride = t.axes[a].dram_stride * t.element_bytes;
    if (stride < 0) {
      runs.base += static_cast<uint64_t>(stride * (block.n[a] - 1));
      stride = -stride;
    }
    runs.dims.push_back({block.n[a], stride});
  }
  std::stable_sort(
      runs.dims.begin(), runs.dims.end(),
      [](const StridedRuns::Dim& a, const StridedRuns::Dim& b) { return a.stride_bytes > b.stride_bytes; });
  while (!runs.dims.empty() && runs.dims.back().stride_bytes == static_cast<int64_t>(runs.run_bytes)) {
    runs.run_bytes *= runs.dims.back().count;
    runs.dims.pop_back();
  }
  for (size_t i = runs.dims.size(); i-- > 1;) {
    // Outer axis continues the inner one: one axis of both.
    const StridedRuns::Dim inner = runs.dims[i];
    if (runs.dims[i - 1].stride_bytes == inner.stride_bytes * static_cast<int64_t>(inner.count)) {
      runs.dims[i - 1] = {runs.dims[i - 1].count * inner.count, inner.stride_bytes};
      runs.dims.erase(runs.dims.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return runs;
}

}  // namespace npu::engine
