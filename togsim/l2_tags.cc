#include "l2_tags.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace npu::timing {

L2Tags::L2Tags(const L2Params& params, uint32_t burst_bytes)
    : sets_(params.sets), ways_(params.ways), line_bytes_(params.line_bytes), burst_bytes_(burst_bytes) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("L2: " + what);
  };
  require(std::has_single_bit(sets_), "sets is no power of two: " + std::to_string(sets_));
  require(ways_ > 0, "ways is 0");
  require(std::has_single_bit(line_bytes_), "line_bytes is no power of two: " + std::to_string(line_bytes_));
  require(burst_bytes_ > 0 && line_bytes_ >= burst_bytes_, "line_bytes is less than a burst");
  require(line_bytes_ / burst_bytes_ <= 64, "a line has more than 64 bursts");
  require(params.bytes_per_cycle > 0, "bytes_per_cycle is 0");
  sector_bits_ = std::countr_zero(line_bytes_ / burst_bytes_);
  lines_.resize(uint64_t{sets_} * ways_);
}

L2Tags::Outcome L2Tags::access(uint64_t burst, bool store) {
  const uint64_t line = burst >> sector_bits_;
  const uint64_t sector = uint64_t{1} << (burst & ((uint64_t{1} << sector_bits_) - 1));
  const auto set = lines_.begin() + static_cast<std::ptrdiff_t>((line & (sets_ - 1)) * ways_);
  const auto end = set + ways_;
  auto found = std::find_if(set, end, [&](const Line& l) { return l.used && l.tag == line; });
  Outcome outcome;
  if (found == end) {
    // Empty ones first, then by use; lines that are to stay last.
    const auto rank = [&](const Line& l) { return std::pair(l.used && resident(l.tag), l.used); };
    found = std::min_element(set, end, [&](const Line& a, const Line& b) { return rank(a) < rank(b); });
    if (rank(*found).first && !resident(line)) {
      outcome.around = true;
      ++(store ? write_misses_ : read_misses_);
      ++(store ? writes_around_ : reads_around_);
      return outcome;
    }
    outcome.victim = found->tag << sector_bits_;
    outcome.dirty = found->dirty;
    write_backs_ += static_cast<uint64_t>(std::popcount(found->dirty));
    *found = {line, 0, 0, 0};
  }
  found->used = ++uses_;
  outcome.hit = found->valid & sector;
  if (store) {
    ++(outcome.hit ? write_hits_ : write_misses_);
    found->dirty |= sector;
  } else {
    ++(outcome.hit ? read_hits_ : read_misses_);
  }
  found->valid |= sector;
  return outcome;
}

void L2Tags::begin(std::vector<AddressRange> resident) {
  ranges_ = std::move(resident);
  std::sort(ranges_.begin(), ranges_.end());
  for (Counter* counter : {&read_hits_, &read_misses_, &write_hits_, &write_misses_, &reads_around_,
                           &writes_around_, &write_backs_})
    counter->set(0);
}

bool L2Tags::resident(uint64_t line) const {
  const uint64_t address = line * line_bytes_;
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), AddressRange{address + line_bytes_ - 1, ~uint64_t{0}});
  return after != ranges_.begin() && std::prev(after)->second > address;
}

ComponentStats L2Tags::stats() {
  hit_bytes_.set((read_hits_.value() + write_hits_.value()) * burst_bytes_);
  dram_read_bytes_.set(dram_reads() * burst_bytes_);
  dram_written_bytes_.set(dram_writes() * burst_bytes_);
  return {stats_.component(), stats_.values()};
}

}  // namespace npu::timing
