#include "address_map.h"

#include <bit>
#include <sstream>
#include <stdexcept>

namespace npu::timing {
namespace {

enum Field : size_t { kPseudoChannel, kChannel, kBank, kBankGroup, kColumn, kRow, kFields };
constexpr std::array<const char*, kFields> kNames = {"pseudo_channel", "channel", "bank",
                                                     "bank_group",     "column",  "row"};

uint32_t log2_of(uint32_t value, const char* what) {
  if (!std::has_single_bit(value))
    throw std::invalid_argument(std::string("DRAM ") + what +
                                " is no power of two: " + std::to_string(value));
  return static_cast<uint32_t>(std::countr_zero(value));
}

[[noreturn]] void refuse(const std::string& mapping, const std::string& why) {
  throw std::invalid_argument("DRAM mapping '" + mapping + "': " + why);
}

// For each field the bits of the burst's number that it consists of, from its lowest on.
using FieldBits = std::array<std::vector<uint32_t>, kFields>;

uint32_t width_of(const std::string& mapping, const std::string& word, size_t colon, uint32_t left) {
  if (colon == std::string::npos) return left;
  const std::string digits = word.substr(colon + 1);
  if (digits.empty() || digits.size() > 2 || digits.find_first_not_of("0123456789") != std::string::npos)
    refuse(mapping, "'" + word + "' has no number of bits");
  const auto width = static_cast<uint32_t>(std::stoul(digits));
  if (width > left) refuse(mapping, "'" + word + "' takes more bits than the field has left");
  return width;
}

FieldBits parse(const std::string& mapping, const std::array<uint32_t, kFields>& widths) {
  std::vector<std::string> words;
  std::istringstream text(mapping);
  for (std::string word; text >> word;) words.push_back(word);
  if (words.empty() || words.front() != "row") refuse(mapping, "'row' stands first");
  FieldBits bits;
  std::array<bool, kFields> named{};
  uint32_t next = 0;
  for (size_t i = words.size(); i-- > 1;) {  // from the least significant
    const size_t colon = words[i].find(':');
    const std::string name = words[i].substr(0, colon);
    size_t field = 0;
    while (field < kRow && name != kNames[field]) ++field;
    if (field == kRow) refuse(mapping, "'" + words[i] + "' is no field here");
    if (named[field] && bits[field].size() == widths[field]) refuse(mapping, "'" + name + "' is there twice");
    named[field] = true;
    const auto left = static_cast<uint32_t>(widths[field] - bits[field].size());
    for (uint32_t width = width_of(mapping, words[i], colon, left); width > 0; --width)
      bits[field].push_back(next++);
  }
  for (size_t field = 0; field < kRow; ++field) {
    if (bits[field].size() != widths[field] || !named[field])
      refuse(mapping, std::string("'") + kNames[field] + "' is missing or incomplete");
  }
  bits[kRow].push_back(next);
  return bits;
}

}  // namespace

AddressMap::AddressMap(const DramGeometry& geometry) {
  std::array<uint32_t, kFields> widths{};
  const uint32_t burst_bits = log2_of(geometry.burst_bytes, "burst_bytes");
  const uint32_t row_bits = log2_of(geometry.row_bytes, "row_bytes");
  if (row_bits < burst_bits) throw std::invalid_argument("DRAM row_bytes is less than burst_bytes");
  widths[kPseudoChannel] = log2_of(geometry.pseudo_channels, "pseudo_channels");
  widths[kChannel] = log2_of(geometry.channels, "channels");
  widths[kBank] = log2_of(geometry.banks_per_group, "banks_per_group");
  widths[kBankGroup] = log2_of(geometry.bank_groups, "bank_groups");
  widths[kColumn] = row_bits - burst_bits;
  if (widths[kChannel] + widths[kPseudoChannel] > 16)
    throw std::invalid_argument("DRAM has too many channels");
  const FieldBits bits = parse(geometry.mapping, widths);
  row_shift_ = bits[kRow].front();

  // A field's bit b is XORed with every width-th bit above the field's highest. From the row downwards every
  // field can be found again from its hashed bits and those above: no two bursts share a place.
  uint32_t target = 0;
  for (const size_t field : {kPseudoChannel, kChannel, kBank, kBankGroup}) {
    if (field == kBank) target = 16;
    const bool hashed =
        field == kPseudoChannel || field == kChannel ? geometry.channel_hash : geometry.bank_hash;
    for (uint32_t b = 0; b < widths[field]; ++b, ++target) {
      uint64_t mask = uint64_t{1} << bits[field][b];
      if (hashed)
        for (uint32_t bit = bits[field].back() + 1 + b; bit < 64; bit += widths[field])
          mask |= uint64_t{1} << bit;
      for (size_t byte = 0; byte < tables_.size(); ++byte) {
        for (uint32_t value = 0; value < 256; ++value) {
          const uint64_t part = mask & (uint64_t{value} << (8 * byte));
          tables_[byte][value] |= static_cast<uint32_t>(std::popcount(part) & 1) << target;
        }
      }
    }
  }
}

}  // namespace npu::timing
