#include "vector_table.h"

#include <dlfcn.h>
#include <riscv/processor.h>

#include <string>

namespace npu::engine {

namespace {

struct Row {
  const char* name;
  uint64_t match;
  uint64_t mask;
};

constexpr Row kAllRows[] = {
#define DECLARE_INSN(name, match, mask) {#name, match, mask},
#include <riscv/encoding.h>
#undef DECLARE_INSN
};

std::vector<VectorRow> build() {
  // The library may be loaded with local visibility: ask it for its own symbols.
  Dl_info info{};
  void* library = nullptr;
  if (dladdr(reinterpret_cast<void*>(&::illegal_instruction), &info) != 0)
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  std::vector<VectorRow> rows;
  for (const Row& row : kAllRows) {
    if (row.name[0] != 'v') continue;
    const std::string handler = std::string("fast_rv64i_") + row.name;
    const std::string symbol = "_Z" + std::to_string(handler.size()) + handler + "P11processor_t6insn_tm";
    if (dlsym(library != nullptr ? library : RTLD_DEFAULT, symbol.c_str()) == nullptr) continue;
    rows.push_back({row.name, static_cast<uint32_t>(row.match), static_cast<uint32_t>(row.mask)});
  }
  if (library != nullptr) dlclose(library);
  return rows;
}

}  // namespace

const std::vector<VectorRow>& vector_table() {
  static const std::vector<VectorRow> table = build();
  return table;
}

int find_vector_row(uint32_t bits) {
  const std::vector<VectorRow>& table = vector_table();
  for (size_t i = 0; i < table.size(); ++i)
    if ((bits & table[i].mask) == table[i].match) return static_cast<int>(i);
  return -1;
}

}  // namespace npu::engine
