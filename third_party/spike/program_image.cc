#include "program_image.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "faults.h"
#include "isa_generated.h"
#include "live_arguments.h"

namespace npu::engine {

namespace {
[[noreturn]] void reject(const Segment& segment, const char* why) {
  throw std::invalid_argument("segment at " + hex(segment.address) + " of " +
                              std::to_string(segment.bytes.size()) + " bytes " + why);
}
}  // namespace

ProgramImage::ProgramImage(std::vector<Segment> segments, std::vector<TileFunction> tile_functions)
    : tile_functions_(std::move(tile_functions)) {
  std::erase_if(segments, [](const Segment& segment) { return segment.bytes.empty(); });
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.address < b.address; });
  uint64_t end = kPageBytes;  // the first page holds the return address
  uint64_t text_end = 0;
  for (const Segment& segment : segments) {
    if (segment.address < end) reject(segment, "overlaps another one or the first page");
    end = segment.address + segment.bytes.size();
    if (end > kScratchpadBase || end < segment.address) reject(segment, "reaches the scratchpad window");
    if (!segment.executable) continue;
    if (segment.address % 4 != 0) reject(segment, "holds code and is not aligned to 4 bytes");
    if (text_end_ != 0) reject(segment, "is a second segment of code; link with one");
    text_begin_ = segment.address;
    text_end = text_end_ = end / 4 * 4;
    text_page_begin_ = text_begin_ / kPageBytes * kPageBytes;
    text_.assign((text_end + kPageBytes - 1) / kPageBytes * kPageBytes - text_page_begin_, 0);
    std::memcpy(text_.data() + (text_begin_ - text_page_begin_), segment.bytes.data(), segment.bytes.size());
  }
  if (text_end == 0) throw std::invalid_argument("the program has no code");
  for (Segment& segment : segments)
    if (!segment.executable) constants_.push_back(std::move(segment));
  for (TileFunction& tile : tile_functions_) {
    if (!is_text(tile.entry) || tile.entry % 4 != 0 || tile.size_bytes > text_end_ - tile.entry)
      throw std::invalid_argument("tile function " + tile.name + " at " + hex(tile.entry) +
                                  " is not in the code");
    std::vector<uint32_t> words(tile.size_bytes / 4);
    std::memcpy(words.data(), text_.data() + (tile.entry - text_page_begin_), words.size() * 4);
    tile.live_arguments = live_arguments(words);
  }
}

char* ProgramImage::text_page(uint64_t address) {
  const uint64_t page = address / kPageBytes * kPageBytes;
  if (page < text_page_begin_ || page - text_page_begin_ >= text_.size()) return nullptr;
  return reinterpret_cast<char*>(text_.data() + (page - text_page_begin_));
}

}  // namespace npu::engine
