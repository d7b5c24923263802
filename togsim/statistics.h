// Counters of components: declared as members, registered by that, read by whoever reports.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace npu::timing {

class Counter;

// The counters of one component, in the order of their declaration.
class StatGroup {
 public:
  explicit StatGroup(std::string component) : component_(std::move(component)) {}
  StatGroup(const StatGroup&) = delete;
  StatGroup& operator=(const StatGroup&) = delete;

  const std::string& component() const { return component_; }
  inline std::vector<std::pair<std::string, uint64_t>> values() const;

 private:
  friend class Counter;
  std::string component_;
  std::vector<const Counter*> counters_;
};

// One figure. The unit is part of the name (`_bytes`, `_cycles`); counts of things have none.
class Counter {
 public:
  Counter(StatGroup& group, const char* name) : name_(name) { group.counters_.push_back(this); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  Counter& operator+=(uint64_t amount) {
    value_ += amount;
    return *this;
  }
  Counter& operator++() { return *this += 1; }
  void set(uint64_t value) { value_ = value; }
  uint64_t value() const { return value_; }
  const char* name() const { return name_; }

 private:
  const char* name_;
  uint64_t value_ = 0;
};

std::vector<std::pair<std::string, uint64_t>> StatGroup::values() const {
  std::vector<std::pair<std::string, uint64_t>> rows;
  for (const Counter* counter : counters_) rows.emplace_back(counter->name(), counter->value());
  return rows;
}

// Names and values.
using Counters = std::vector<std::pair<std::string, uint64_t>>;

// What a component reports: its name and its counters.
using ComponentStats = std::pair<std::string, Counters>;

}  // namespace npu::timing
