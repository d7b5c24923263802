"""DRAM addresses depend on the order of first use and on sizes, on nothing else."""

from __future__ import annotations

import torch

from pytorchsim.runtime.allocator import DramAllocator
from pytorchsim.target.memory_map import DRAM_ALIGNMENT_BYTES as ALIGNMENT_BYTES


def test_storages_in_order_of_first_use() -> None:
    first, second, third = torch.zeros(10), torch.zeros(1000), torch.zeros(3, dtype=torch.int8)
    allocator = DramAllocator()
    # 40 bytes, then 4000 bytes = 15.6 x 256
    assert [allocator.address(t) for t in (first, second, third)] == [0, 256, 256 + 4096]
    assert allocator.used_bytes == 256 + 4096 + 256
    assert DramAllocator().address(third) == 0


def test_the_same_storage_keeps_its_address() -> None:
    allocator = DramAllocator()
    tensor = torch.zeros(100)
    address = allocator.address(tensor)
    allocator.address(torch.zeros(100))
    assert allocator.address(tensor) == address


def test_views_share_their_storage() -> None:
    allocator = DramAllocator()
    allocator.address(torch.zeros(1))
    base = torch.zeros(4, 8)
    assert allocator.address(base[2:, 3:]) == ALIGNMENT_BYTES + (2 * 8 + 3) * 4
    assert allocator.address(base) == ALIGNMENT_BYTES
    assert allocator.address(base.t()) == ALIGNMENT_BYTES
    assert allocator.address(base.view(torch.int8).flatten()[5:]) == ALIGNMENT_BYTES + 5


def test_a_new_storage_at_an_old_host_address_is_new() -> None:
    allocator = DramAllocator()
    addresses = []
    for _ in range(20):  # the host allocator gives the same memory again
        addresses.append(allocator.address(torch.zeros(64)))
    assert addresses == [number * ALIGNMENT_BYTES for number in range(20)]


def test_no_tensor_is_kept_alive() -> None:
    allocator = DramAllocator()
    storage = torch.zeros(64).untyped_storage()
    reference = torch.multiprocessing.reductions.StorageWeakRef(storage)
    allocator.address(torch.tensor([]).set_(storage))
    del storage
    assert reference.expired()


def test_storages_that_are_gone_are_forgotten() -> None:
    allocator = DramAllocator()
    kept = torch.zeros(64)
    assert allocator.address(kept) == 0
    for number in range(2000):
        assert allocator.address(torch.zeros(64)) == (number + 1) * ALIGNMENT_BYTES
    assert allocator.address(kept) == 0
    assert len(allocator._blocks) < 600  # at most 256 at a time are not looked at


def test_empty_tensors_have_addresses_of_their_own() -> None:
    allocator = DramAllocator()
    assert allocator.address(torch.zeros(0)) != allocator.address(torch.zeros(0, 3))


def test_a_resized_storage_moves() -> None:
    allocator = DramAllocator()
    tensor = torch.zeros(8)
    old = allocator.address(tensor)
    tensor.untyped_storage().resize_(8000)
    assert allocator.address(tensor) > old
