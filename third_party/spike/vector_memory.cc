// Vector loads and stores of every form, on all lanes, each element's address checked against its own lane's
// slice. Legality rules and the treatment of tails, masks and vstart are those of Spike's handlers.
#include <algorithm>

#include "engine_core.h"

namespace npu::engine {

namespace {

using Addressing = VectorAccess::Addressing;

void require(bool legal, const char* why) {
  if (!legal) throw Fault(FaultKind::IllegalInstruction, std::string("vector memory access: ") + why);
}

bool aligned(uint32_t number, float emul) { return emul <= 1 || number % static_cast<uint32_t>(emul) == 0; }

bool overlap(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size) {
  return a < b + b_size && b < a + a_size;
}

uint32_t registers(float emul) { return emul < 1 ? 1 : static_cast<uint32_t>(emul); }

// A wider or narrower index group may overlap the data group only at the end that the specification allows.
bool bad_index_overlap(uint32_t data, float data_emul, uint32_t index, float index_emul, uint32_t index_bits,
                       uint32_t sew_bits) {
  const uint32_t data_size = registers(data_emul), index_size = registers(index_emul);
  if (!overlap(data, data_size, index, index_size)) return false;
  if (index_bits > sew_bits) return data != index;
  if (index_bits < sew_bits) {
    if (index_emul < 1) return true;
    return index != data + data_size - index_size;
  }
  return false;
}

template <typename Body>
void with_element(uint32_t bytes, Body body) {
  switch (bytes) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
  }
}

}  // namespace

void Core::vector_memory(const Decoded& entry) {
  const VectorAccess& access = entry.access;
  const uint64_t base = x(entry.rs1);
  vectorUnit_t& unit = processor_->VU;
  const auto vstart = static_cast<uint32_t>(unit.vstart->read());

  if (access.addressing == Addressing::Whole) {
    vector_contiguous(entry, base + vstart * access.width_bytes, vstart * access.width_bytes,
                      access.fields * vreg_bytes);
  } else {
    require(!vill_, "vtype is not set (vill)");
    const bool mask_access = access.addressing == Addressing::Mask;
    const uint32_t sew_bits = sew_bytes_ * 8, width_bits = access.width_bytes * 8u;
    const float width_emul =
        mask_access ? 1 : static_cast<float>(width_bits) / static_cast<float>(sew_bits) * lmul_;
    const float data_emul = access.addressing == Addressing::Indexed ? lmul_ : width_emul;
    const uint32_t group = registers(data_emul);
    require(width_emul >= 0.125f && width_emul <= 8, "EMUL is out of range");
    require(aligned(entry.rd, data_emul), "the data register is not aligned to its group");
    require(access.fields * group <= 8 && entry.rd + access.fields * group <= 32,
            "the register groups do not fit");
    require(access.store || !access.masked || entry.rd != 0, "a masked load may not write v0");
    if (access.addressing == Addressing::Indexed) {
      require(aligned(entry.rs2, width_emul), "the index register is not aligned to its group");
      for (uint32_t field = 0; !access.store && field < access.fields; ++field) {
        const uint32_t data = entry.rd + field * group;
        require(!bad_index_overlap(data, lmul_, entry.rs2, width_emul, width_bits, sew_bits),
                "data and index register groups overlap");
        require(access.fields < 2 || !overlap(data, group, entry.rs2, registers(width_emul)),
                "data and index register groups overlap");
      }
    }
    const uint32_t count = mask_access ? (vl_ + 7) / 8 : vl_;
    if (vstart < count) {
      if (access.addressing == Addressing::Indexed)
        with_element(sew_bytes_,
                     [&](auto element) { vector_indexed<decltype(element)>(entry, vstart, group); });
      else if (access.addressing != Addressing::Strided && !access.masked && access.fields == 1)
        vector_contiguous(entry, base + vstart * access.width_bytes, vstart * access.width_bytes,
                          count * access.width_bytes);
      else
        with_element(access.width_bytes,
                     [&](auto element) { vector_regular<decltype(element)>(entry, vstart, group); });
    }
  }
  if (vstart != 0) unit.vstart->write_raw(0);
}

// Bytes [first, end) of the register group at rd, from or to `address` on.
void Core::vector_contiguous(const Decoded& entry, uint64_t address, uint32_t first, uint32_t end) {
  if (first >= end) return;
  const uint32_t bytes = end - first;
  const uint32_t step = entry.access.width_bytes;
  const uint64_t offset = slice_offset(address, bytes, params.slice_bytes);
  const uint8_t* source = nullptr;
  uint64_t lane_stride = scratchpad.stride_bytes();
  if (offset != UINT64_MAX) {
    check_in_flight(offset, bytes, entry.access.store, -1);
    source = scratchpad.lane(0) + offset;
    if (entry.access.store) scratchpad.mark_written(offset, bytes);
  } else {
    source = entry.access.store ? nullptr : program.constants(address, bytes);
    lane_stride = 0;
  }
  if (source == nullptr) {
    // Name the first element that is wrong.
    for (uint32_t done = 0; done < bytes; done += step) vector_element(entry, address + done, step, 0);
    vector_address_fault(entry, address, step, 0);
  }
  for (uint32_t done = first; done < end;) {
    const uint32_t within = done % vreg_bytes;
    const uint32_t part = std::min(end - done, vreg_bytes - within);
    uint8_t* file = vreg(entry.rd + done / vreg_bytes, 0) + within;
    auto* memory = const_cast<uint8_t*>(source) + (done - first);
    const auto copy = [&](auto size) {
      if (entry.access.store)
        for (uint32_t lane = 0; lane < lanes; ++lane)
          std::memcpy(memory + lane * lane_stride, file + lane * vreg_bytes, size);
      else
        for (uint32_t lane = 0; lane < lanes; ++lane)
          std::memcpy(file + lane * vreg_bytes, memory + lane * lane_stride, size);
    };
    if (part == 32)
      copy(std::integral_constant<size_t, 32>{});
    else
      copy(static_cast<size_t>(part));
    done += part;
  }
}

// Unit-stride and strided, with masks and segments: an element's address is the same in every lane.
template <typename Element>
void Core::vector_regular(const Decoded& entry, uint32_t first, uint32_t group) {
  const VectorAccess& access = entry.access;
  const uint32_t per_register = vreg_bytes / sizeof(Element);
  const uint64_t base = x(entry.rs1);
  const uint64_t stride =
      access.addressing == Addressing::Strided ? x(entry.rs2) : sizeof(Element) * uint64_t{access.fields};
  for (uint32_t index = first; index < vl_; ++index) {
    for (uint32_t field = 0; field < access.fields; ++field) {
      const uint64_t address = base + index * stride + field * sizeof(Element);
      uint8_t* file =
          vreg(entry.rd + field * group + index / per_register, 0) + index % per_register * sizeof(Element);
      uint8_t* memory = nullptr;
      uint64_t lane_stride = 0;
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        if (access.masked && (vreg(0, lane)[index / 8] >> index % 8 & 1) == 0) continue;
        if (memory == nullptr) {
          const uint8_t* element = vector_element(entry, address, sizeof(Element), lane);
          lane_stride = address - kScratchpadBase < params.slice_bytes ? scratchpad.stride_bytes() : 0;
          memory = const_cast<uint8_t*>(element) - lane * lane_stride;
        }
        if (access.store)
          std::memcpy(memory + lane * lane_stride, file + lane * vreg_bytes, sizeof(Element));
        else
          std::memcpy(file + lane * vreg_bytes, memory + lane * lane_stride, sizeof(Element));
      }
    }
  }
}

// Indexed: every lane has its own addresses.
template <typename Element>
void Core::vector_indexed(const Decoded& entry, uint32_t first, uint32_t group) {
  const VectorAccess& access = entry.access;
  const uint32_t per_register = vreg_bytes / sizeof(Element);
  const uint32_t index_per_register = vreg_bytes / access.width_bytes;
  const uint64_t base = x(entry.rs1);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    for (uint32_t index = first; index < vl_; ++index) {
      if (access.masked && (vreg(0, lane)[index / 8] >> index % 8 & 1) == 0) continue;
      uint64_t offset = 0;
      std::memcpy(&offset,
                  vreg(entry.rs2 + index / index_per_register, lane) +
                      index % index_per_register * access.width_bytes,
                  access.width_bytes);
      for (uint32_t field = 0; field < access.fields; ++field) {
        uint8_t* file = vreg(entry.rd + field * group + index / per_register, lane) +
                        index % per_register * sizeof(Element);
        const uint8_t* memory =
            vector_element(entry, base + offset + field * sizeof(Element), sizeof(Element), lane);
        if (access.store)
          std::memcpy(const_cast<uint8_t*>(memory), file, sizeof(Element));
        else
          std::memcpy(file, memory, sizeof(Element));
      }
    }
  }
}

// Where a lane's element lies, after all checks.
const uint8_t* Core::vector_element(const Decoded& entry, uint64_t address, uint32_t bytes, uint32_t lane) {
  const uint64_t offset = slice_offset(address, bytes, params.slice_bytes);
  if (offset != UINT64_MAX) [[likely]] {
    check_in_flight(offset, bytes, entry.access.store, static_cast<int32_t>(lane));
    if (entry.access.store) scratchpad.mark_written(offset, bytes);
    return scratchpad.lane(lane) + offset;
  }
  if (!entry.access.store)
    if (const uint8_t* constant = program.constants(address, bytes)) return constant;
  vector_address_fault(entry, address, bytes, static_cast<int32_t>(lane));
}

void Core::vector_address_fault(const Decoded& entry, uint64_t address, uint32_t bytes, int32_t lane) {
  const std::string what = std::string("vector ") + (entry.access.store ? "store of " : "load of ") +
                           std::to_string(bytes) + " bytes at " + hex(address);
  const uint64_t base = x(entry.rs1);
  if (program.is_text(address) || program.constants(address, 1) != nullptr) {
    if (entry.access.store)
      throw Fault(FaultKind::ReadOnly, what + ": code and constants are read-only", lane, address);
    throw Fault(FaultKind::Unmapped, what + ": code is not data, and constants end before", lane, address);
  }
  if (base - kScratchpadBase <= params.slice_bytes || address - kScratchpadBase <= params.slice_bytes)
    throw Fault(FaultKind::OutOfSlice,
                what + " leaves the lane's slice [" + hex(kScratchpadBase) + ", " + hex(slice_end_) + ")",
                lane, address);
  throw Fault(FaultKind::Unmapped, what + ": nothing is mapped there", lane, address);
}

void Core::check_in_flight(uint64_t offset, uint64_t bytes, bool write, int32_t lane) {
  if (in_flight.conflicts(offset, bytes, write)) [[unlikely]]
    in_flight_fault(offset, bytes, write, lane);
}

}  // namespace npu::engine
