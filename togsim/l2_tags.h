// What the shared L2 holds: lines of sectors, a sector being one DRAM burst. State only; time is
// l2_slice.h's.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "statistics.h"

namespace npu::timing {

struct L2Params {
  bool shared = false;  // false: there is no L2
  uint32_t sets = 8192;
  uint32_t ways = 16;
  uint32_t line_bytes = 128;
  uint64_t bytes_per_cycle = 1024;  // of all slices
  uint64_t latency_cycles = 40;     // from a request's turn to its data
};

// Bytes [first, second) of the DRAM.
using AddressRange = std::pair<uint64_t, uint64_t>;

// Write-back; a write takes a line without reading it, because it covers its sectors wholly. Least recently
// used, but a line of a resident range leaves only for another such line; a set full of them takes nothing
// else.
class L2Tags {
 public:
  // Throws std::invalid_argument: sizes that are no powers of two or zero, more than 64 sectors per line.
  L2Tags(const L2Params& params, uint32_t burst_bytes);

  struct Outcome {
    bool hit = false;
    bool around = false;  // a miss that leaves no trace: a write goes to the DRAM itself
    uint64_t victim = 0;  // the first burst of the line that left
    uint64_t dirty = 0;   // its sectors to be written back, one bit each
  };
  Outcome access(uint64_t burst, bool store);

  // A launch begins: its resident ranges; counters start at 0. What the L2 holds stays.
  void begin(std::vector<AddressRange> resident);
  uint64_t dram_reads() const { return read_misses_.value(); }
  uint64_t dram_writes() const { return write_backs_.value() + writes_around_.value(); }
  ComponentStats stats();

 private:
  struct Line {
    uint64_t tag = 0, used = 0;  // number of the line's last use; 0: empty
    uint64_t valid = 0, dirty = 0;
  };
  bool resident(uint64_t line) const;

  uint32_t sets_, ways_, line_bytes_, burst_bytes_;
  int sector_bits_;
  std::vector<Line> lines_;  // by set, then way
  std::vector<AddressRange> ranges_;
  // Of one launch. Requests are bursts: hits + misses.
  StatGroup stats_{"l2"};
  Counter read_hits_{stats_, "read_hits"};
  Counter read_misses_{stats_, "read_misses"};  // each is a burst that the DRAM reads
  Counter write_hits_{stats_, "write_hits"};
  Counter write_misses_{stats_, "write_misses"};
  Counter reads_around_{stats_, "reads_around"};    // of the misses: nothing is kept of them
  Counter writes_around_{stats_, "writes_around"};  // the DRAM writes them
  Counter write_backs_{stats_, "write_backs"};      // dirty sectors of lines that made room
  Counter hit_bytes_{stats_, "hit_bytes"};
  Counter dram_read_bytes_{stats_, "dram_read_bytes"};
  Counter dram_written_bytes_{stats_, "dram_written_bytes"};
  uint64_t uses_ = 0;
};

}  // namespace npu::timing
