// Requests of one direction that wait at a channel of fast fidelity: by bank, oldest first, and in each bank
// the oldest one that wants the row that is open.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "flow_channel.h"

namespace npu::timing {

class FlowQueue {
 public:
  struct Entry {
    uint64_t row = 0;
    uint64_t rank = 0;  // number of its arrival, and its bank in the lowest six bits
    uint32_t job = 0, next = kNone;
    uint16_t core = 0;
  };

  explicit FlowQueue(size_t places) : pool_(places) {
    for (uint32_t i = 0; i < places; ++i) pool_[i].next = i + 1 < places ? i + 1 : kNone;
  }

  bool full() const { return free_ == kNone; }
  size_t size() const { return size_; }
  uint64_t wanted() const { return wanted_; }  // banks with requests, one bit each
  uint64_t hits() const { return hits_; }      // with one for the open row
  // By bank: the ranks of these requests.
  const std::array<uint64_t, 64>& oldest() const { return oldest_; }
  const std::array<uint64_t, 64>& oldest_hits() const { return oldest_hits_; }
  uint64_t oldest_row(uint32_t bank) const { return pool_[banks_[bank].head].row; }

  // Not when full. `hits`: it wants the open row.
  void push(const FlowRequest& request, uint64_t arrival, bool hits) {
    const uint32_t index = free_;
    free_ = pool_[index].next;
    const uint64_t rank = arrival << 6 | request.bank, bit = uint64_t{1} << request.bank;
    pool_[index] = {request.row, rank, request.job, kNone, request.core};
    Bank& bank = banks_[request.bank];
    uint32_t before = kNone;
    if (wanted_ & bit) {
      before = bank.tail;
      pool_[before].next = index;
    } else {
      bank.head = index;
      oldest_[request.bank] = rank;
      wanted_ |= bit;
    }
    bank.tail = index;
    ++size_;
    if (!hits || hits_ & bit) return;
    hits_ |= bit;
    bank.hit = index;
    bank.before = before;
    oldest_hits_[request.bank] = rank;
  }

  // The request that hits leaves; it is known until the next one is pushed.
  const Entry& take(uint32_t number) {
    Bank& bank = banks_[number];
    const uint32_t index = bank.hit;
    Entry& entry = pool_[index];
    const uint32_t next = std::exchange(entry.next, free_);
    free_ = index;
    --size_;
    if (next == kNone) bank.tail = bank.before;
    if (bank.before != kNone) {
      pool_[bank.before].next = next;
    } else if (next != kNone) {
      bank.head = next;
      oldest_[number] = pool_[next].rank;
    } else {
      wanted_ &= ~(uint64_t{1} << number);
    }
    search(number, entry.row, next);  // the next one that hits is behind this one
    return entry;
  }

  // Another row is open.
  void opened(uint32_t number, uint64_t row) {
    if (!(wanted_ >> number & 1)) return;
    banks_[number].before = kNone;
    search(number, row, banks_[number].head);
  }
  void closed(uint32_t number) { hits_ &= ~(uint64_t{1} << number); }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Bank {
    uint32_t head = kNone, tail = kNone;
    uint32_t hit = kNone, before = kNone;  // `before`: the one in front of the hit
  };

  void search(uint32_t number, uint64_t row, uint32_t from) {
    Bank& bank = banks_[number];
    const uint64_t bit = uint64_t{1} << number;
    for (uint32_t i = from; i != kNone; i = pool_[i].next) {
      if (pool_[i].row == row) {
        bank.hit = i;
        oldest_hits_[number] = pool_[i].rank;
        hits_ |= bit;
        return;
      }
      bank.before = i;
    }
    hits_ &= ~bit;
  }

  std::vector<Entry> pool_;  // those that are free are a list, too
  uint32_t free_ = 0;
  size_t size_ = 0;
  uint64_t wanted_ = 0, hits_ = 0;
  std::array<uint64_t, 64> oldest_{}, oldest_hits_{};
  std::array<Bank, 64> banks_{};
};

}  // namespace npu::timing
