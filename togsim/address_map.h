// Where in the DRAM a burst lies: which bits of its number choose channel, bank, row.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace npu::timing {

struct DramGeometry {
  uint32_t channels = 16;
  uint32_t pseudo_channels = 2;  // per channel
  uint32_t bank_groups = 4;      // per pseudo-channel
  uint32_t banks_per_group = 4;
  uint32_t row_bytes = 1024;  // of one bank
  uint32_t burst_bytes = 32;
  // Fields from the most significant bits of an address to the least, separated by blanks: row, bank,
  // bank_group, column, pseudo_channel, channel. A field may be split: `column:2` is its next two bits from
  // below, `column` the rest. `row` comes first and takes whatever is above the others.
  std::string mapping = "row bank column bank_group pseudo_channel channel";
  // Each bit of these fields is XORed with address bits above the field, so that no stride stays on a few of
  // them.
  bool channel_hash = true;  // channel and pseudo-channel
  bool bank_hash = true;     // bank group and bank
};

struct BurstLocation {
  uint32_t unit = 0;  // channel * pseudo_channels + pseudo-channel: what has a data bus of its own
  uint32_t bank = 0;  // bank_group * banks_per_group + bank in its group
  uint64_t row = 0;
};

class AddressMap {
 public:
  // Throws std::invalid_argument: sizes that are no powers of two, a mapping that lacks a field or splits it
  // wrongly.
  explicit AddressMap(const DramGeometry& geometry);

  BurstLocation locate(uint64_t burst) const {
    // The first four bytes always: to ask which of them are there costs more.
    uint32_t packed = tables_[0][burst & 0xff] ^ tables_[1][burst >> 8 & 0xff] ^
                      tables_[2][burst >> 16 & 0xff] ^ tables_[3][burst >> 24 & 0xff];
    size_t byte = 4;
    for (uint64_t rest = burst >> 32; rest; rest >>= 8, ++byte) packed ^= tables_[byte][rest & 0xff];
    return {packed & 0xffff, packed >> 16, burst >> row_shift_};
  }

 private:
  // Every bit of a location is the parity of some bits of the burst's number, so a location is the XOR of
  // what the bytes of the number contribute.
  std::array<std::array<uint32_t, 256>, 8> tables_{};
  uint32_t row_shift_ = 0;
};

}  // namespace npu::timing
