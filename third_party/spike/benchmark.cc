// Speed of the engine without Python: ns per element of vector instructions, array products, transfers,
// scalar instructions. Host figures of the same run (memcpy, fused multiply-add) stand beside them.
//
// usage: engine_benchmark
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "isa_generated.h"
#include "machine.h"
#include "native/bodies.h"

namespace {

using npu::engine::LaunchRequest;
using npu::engine::Machine;
using npu::engine::MachineParams;
using npu::engine::Mode;
using npu::engine::ProgramImage;
using npu::engine::Segment;
using npu::engine::Slot;

constexpr uint32_t kT0 = 5, kT1 = 6, kA0 = 10, kA1 = 11, kS0 = 8;
constexpr uint64_t kConstants = 0x80000;

// Words of a kernel.
class Code {
 public:
  void emit(uint32_t word) { words_.push_back(word); }
  void addi(uint32_t rd, uint32_t rs1, int32_t imm) {
    emit(0x13 | rd << 7 | rs1 << 15 | static_cast<uint32_t>(imm) << 20);
  }
  void li(uint32_t rd, uint32_t value) {
    emit(0x37 | rd << 7 | ((value + 0x800) & 0xfffff000));
    emit(0x1b | rd << 7 | rd << 15 | (value & 0xfff) << 20);
  }
  void vset(uint32_t vl, uint32_t log2_sew_bytes, uint32_t log2_lmul) {
    li(kT0, vl);
    emit(0x57 | 7 << 12 | kT0 << 15 | (0xc0 | log2_sew_bytes << 3 | log2_lmul) << 20);
  }
  // s0 times what `body` emits.
  void loop(uint32_t count, const std::function<void()>& body) {
    li(kS0, count);
    const size_t start = words_.size();
    body();
    addi(kS0, kS0, -1);
    const auto offset =
        static_cast<uint32_t>((static_cast<int64_t>(start) - static_cast<int64_t>(words_.size())) * 4);
    emit(0x63 | (offset >> 11 & 1) << 7 | (offset >> 1 & 15) << 8 | 1 << 12 | kS0 << 15 |
         (offset >> 5 & 63) << 25 | (offset >> 12 & 1) << 31);
  }
  void dma_start(uint32_t tag, uint64_t descriptor) {
    li(kT1, static_cast<uint32_t>(descriptor));
    emit(0x0200405b | tag << 7 | kT1 << 15);
  }
  void dma_wait(uint32_t tag) {
    li(kT1, tag);
    emit(0x0600405b | kT1 << 15);
  }
  ProgramImage image(std::vector<uint8_t> constants = {}) {
    emit(0x00008067);
    std::vector<Segment> segments(1);
    segments[0].address = npu::kTextBase;
    segments[0].executable = true;
    segments[0].bytes.resize(words_.size() * 4);
    std::memcpy(segments[0].bytes.data(), words_.data(), words_.size() * 4);
    if (!constants.empty()) segments.push_back({kConstants, std::move(constants), false});
    return ProgramImage(std::move(segments), {});
  }

 private:
  std::vector<uint32_t> words_;
};

double seconds(const std::function<void()>& body) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double launch_seconds(Machine& machine, const std::vector<Slot>& slots, Mode mode) {
  LaunchRequest request;
  request.entry = npu::kTextBase;
  request.mode = mode;
  request.slots = slots;
  return seconds([&] { machine.launch(request, [] { return false; }); });
}

struct VectorCase {
  const char* name;
  uint32_t word;
  uint32_t log2_sew_bytes;
};

uint32_t op_v(uint32_t funct6, uint32_t funct3, uint32_t vd, uint32_t op1, uint32_t vs2,
              bool masked = false) {
  return 0x57 | vd << 7 | funct3 << 12 | op1 << 15 | vs2 << 20 | (masked ? 0u : 1u) << 25 | funct6 << 26;
}

void vector_instructions(Machine& machine) {
  const VectorCase cases[] = {
      {"vfadd.vv", op_v(0x00, 1, 8, 16, 24), 2},
      {"vfmul.vv", op_v(0x24, 1, 8, 16, 24), 2},
      {"vfmacc.vv", op_v(0x2c, 1, 8, 16, 24), 2},
      {"vfmax.vv", op_v(0x06, 1, 8, 16, 24), 2},
      {"vfdiv.vv", op_v(0x20, 1, 8, 16, 24), 2},
      {"vfsqrt.v", op_v(0x13, 1, 8, 0, 24), 2},
      {"vfadd.vf", op_v(0x00, 5, 8, 10, 24), 2},
      {"vfadd.vv v0.t", op_v(0x00, 1, 8, 16, 24, true), 2},
      {"vmflt.vv", op_v(0x1b, 1, 8, 16, 24), 2},
      {"vmerge.vvm", op_v(0x17, 0, 8, 16, 24, true), 2},
      {"vslidedown.vi", op_v(0x0f, 3, 8, 4, 24), 2},
      {"vrgather.vi", op_v(0x0c, 3, 8, 4, 24), 2},
      {"vadd.vv", op_v(0x00, 0, 8, 16, 24), 2},
      {"vmul.vv", op_v(0x25, 2, 8, 16, 24), 2},
      {"vmv.v.v", op_v(0x17, 0, 8, 16, 0), 2},
      {"vle32.v", 0x02006007 | 8 << 7 | kA0 << 15, 2},
      {"vse32.v", 0x02006027 | 8 << 7 | kA0 << 15, 2},
      {"vfadd.vv f16", op_v(0x00, 1, 8, 16, 24), 1},
      {"vfncvt.f.f.w", op_v(0x12, 1, 8, 20, 24), 1},
      {"sfu.exp", 0x2c00305b | 8 << 7 | 16u << 20, 2},
      {"sfu.tanh", 0x2400305b | 8 << 7 | 16u << 20, 2},
      {"xlu.exchange", 0x2c00b05b | 8 << 7 | 16u << 20, 2},
      {"vredsum.vs (Spike)", op_v(0x00, 2, 8, 16, 24), 2},
  };
  std::printf("vector instructions, all lanes, LMUL 1: ns per element and instruction\n");
  for (const VectorCase& test : cases) {
    constexpr uint32_t kUnroll = 16;
    const bool slow = std::strstr(test.name, "Spike") != nullptr;
    const uint32_t iterations = slow ? 4 : 400;
    const uint32_t elements = 32 >> test.log2_sew_bytes;
    Code code;
    code.vset(elements, test.log2_sew_bytes, 0);
    code.li(kA0, static_cast<uint32_t>(npu::kScratchpadBase));
    code.li(kA1, 0x3f800000);  // 1.0 in f32: denormals would cost the host extra
    for (uint32_t vreg = 0; vreg < 32; ++vreg) code.emit(op_v(0x17, 4, vreg, kA1, 0));
    code.loop(iterations, [&] {
      for (uint32_t i = 0; i < kUnroll; ++i) code.emit(test.word);
    });
    machine.load(code.image());
    const double time = launch_seconds(machine, {}, Mode::Functional);
    std::printf("  %-20s %8.3f\n", test.name,
                time * 1e9 / (double{kUnroll} * iterations * elements * machine.params().lanes));
  }
}

void scalar_instructions(Machine& machine) {
  constexpr uint32_t kUnroll = 32, kIterations = 20000;
  Code code;
  code.loop(kIterations, [&] {
    for (uint32_t i = 0; i < kUnroll; ++i) code.addi(kA1, kA1, 1);
  });
  machine.load(code.image());
  for (const auto& [name, mode] :
       {std::pair{"functional", Mode::Functional}, std::pair{"with timing", Mode::FunctionalTiming}}) {
    const double time = launch_seconds(machine, {}, mode);
    std::printf("scalar instructions, %-12s %8.1f ns each\n", name, time * 1e9 / (kUnroll * kIterations));
  }
}

void products(Machine& machine) {
  const uint32_t lanes = machine.params().lanes;
  constexpr uint32_t kIterations = 50, kRows = 64;
  Code code;
  code.vset(32, 2, 2);
  for (uint32_t i = 0; i * 32 < lanes; ++i) code.emit(0x2200305b | (i == 0 ? 16u : 0u) << 7 | 8u << 20);
  code.vset(kRows, 2, 3);
  code.loop(kIterations, [&] {
    code.emit(0x2600305b | 1 << 7 | 16u << 20);
    code.emit(0x0400305b | 24 << 7);
  });
  machine.load(code.image());
  const double time = launch_seconds(machine, {}, Mode::Functional);
  const double macs = double{kIterations} * kRows * lanes * lanes;

  // The host's peak: independent fused multiply-adds in registers, as the bodies compile them.
  std::vector<float> a(8 * 128, 1.0f), b(128 * 32, 1.0f), c(8 * 128);
  const auto& bodies = npu::engine::bodies(0);
  const double peak_time = seconds([&] {
    for (int i = 0; i < 2000; ++i) bodies.multiply_floats(a.data(), b.data(), 32, 32, 8, c.data());
  });
  std::printf(
      "systolic array, f32: %.2f GMAC/s; the body alone on a matrix in the first-level cache %.2f GMAC/s "
      "(%.0f %%)\n",
      macs / time * 1e-9, 2000.0 * 8 * 32 * 32 / peak_time * 1e-9,
      100 * (macs / time) / (2000.0 * 8 * 32 * 32 / peak_time));
}

void append(std::vector<uint8_t>& bytes, const void* record, size_t size) {
  const auto* first = static_cast<const uint8_t*>(record);
  bytes.insert(bytes.end(), first, first + size);
}

struct TransferCase {
  const char* name;
  npu::TransferOp op;
  npu::DescriptorAxis axes[2];
};

void transfers(Machine& machine) {
  const uint32_t lanes = machine.params().lanes;
  constexpr uint32_t kRows = 256, kIterations = 40;
  const uint32_t row = lanes;
  std::vector<float> tensor(size_t{kRows} * lanes * 8);
  std::vector<float> copy(tensor.size());
  const size_t bytes = size_t{kRows} * lanes * 4;
  const double host = seconds([&] {
    for (uint32_t i = 0; i < kIterations; ++i) std::memcpy(copy.data(), tensor.data() + i % 4, bytes);
  });
  std::printf("transfers of %zu KiB: GB/s (memcpy %.2f)\n", bytes / 1024, bytes * kIterations / host * 1e-9);
  const TransferCase cases[] = {
      {"load, lanes hold rows (contiguous in the lane)",
       npu::TransferOp::Load,
       {{lanes, 1, kRows, kRows}, {kRows, 0, 1, 1}}},
      {"load, lanes along a row", npu::TransferOp::Load, {{kRows, 0, row, 1}, {lanes, 1, 1, kRows}}},
      {"load, strided by 8", npu::TransferOp::Load, {{kRows, 0, row * 8, 1}, {lanes, 1, 8, kRows}}},
      {"store, lanes hold rows", npu::TransferOp::Store, {{lanes, 1, kRows, kRows}, {kRows, 0, 1, 1}}},
      {"store, lanes along a row", npu::TransferOp::Store, {{kRows, 0, row, 1}, {lanes, 1, 1, kRows}}},
      {"store-add, lanes along a row", npu::TransferOp::StoreAdd, {{kRows, 0, row, 1}, {lanes, 1, 1, kRows}}},
  };
  for (const TransferCase& test : cases) {
    npu::DescriptorHeader header{};
    header.magic = npu::kDescriptorMagic;
    header.op = static_cast<uint8_t>(test.op);
    header.rank = 2;
    header.lane_stride = 1;
    header.spad_address = npu::kScratchpadBase;
    std::vector<uint8_t> constants;
    append(constants, &header, sizeof header);
    append(constants, test.axes, sizeof test.axes);
    constants.resize(npu::kDescriptorBytes, 0);
    Code code;
    code.loop(kIterations, [&] {
      code.dma_start(1, kConstants);
      code.dma_wait(1);
    });
    machine.load(code.image(constants));
    const Slot slot{
        reinterpret_cast<uint8_t*>(tensor.data()), 0, static_cast<int64_t>(tensor.size() * 4), 0, 4, true};
    const double time = launch_seconds(machine, {slot}, Mode::Functional);
    std::printf("  %-48s %8.2f\n", test.name, bytes * kIterations / time * 1e-9);
  }
}

}  // namespace

int main() {
  try {
    MachineParams params;
    Machine machine(params);
    vector_instructions(machine);
    scalar_instructions(machine);
    products(machine);
    transfers(machine);
  } catch (const npu::engine::Fault& fault) {
    std::fprintf(stderr, "fault %s: %s\n", npu::engine::fault_kind_name(fault.kind), fault.text.c_str());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
