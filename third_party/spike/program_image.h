// A linked program as the machine holds it: code and constants, both read-only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npu::engine {

// One loadable segment of the ELF file.
struct Segment {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;  // padded with zeros to its size in memory
  bool executable = false;
};

// A function that is timed as a unit.
struct TileFunction {
  std::string name;
  uint64_t entry = 0;
  uint64_t size_bytes = 0;
  uint8_t live_arguments =
      0xff;  // filled by ProgramImage: the integer arguments that its latency may depend on
};

class ProgramImage {
 public:
  ProgramImage() = default;
  // Throws std::invalid_argument if segments overlap, lie in the scratchpad window, or code is not one range.
  ProgramImage(std::vector<Segment> segments, std::vector<TileFunction> tile_functions);

  uint64_t text_begin() const { return text_begin_; }
  uint64_t text_end() const { return text_end_; }
  bool is_text(uint64_t address) const { return address >= text_begin_ && address < text_end_; }

  // The constants at [address, address + bytes), or null if they are not all constants of one segment.
  const uint8_t* constants(uint64_t address, uint64_t bytes) const {
    for (const Segment& segment : constants_)
      if (address >= segment.address && address - segment.address < segment.bytes.size() &&
          bytes <= segment.bytes.size() - (address - segment.address))
        return segment.bytes.data() + (address - segment.address);
    return nullptr;
  }

  // The page of code that holds `address` (page-aligned contents, for Spike's fetch), or null.
  char* text_page(uint64_t address);

  const std::vector<TileFunction>& tile_functions() const { return tile_functions_; }

 private:
  std::vector<Segment> constants_;
  std::vector<uint8_t> text_;  // from the page of text_begin_ to the end of the page of text_end_
  uint64_t text_page_begin_ = 0;
  uint64_t text_begin_ = 0;
  uint64_t text_end_ = 0;
  std::vector<TileFunction> tile_functions_;
};

}  // namespace npu::engine
