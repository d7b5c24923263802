"""DRAM addresses for tensors: deterministic, so that the same call has the same cycles in every process.

In: tensors. Out: the DRAM address of each one's element 0. Storages get addresses in order of first use; views of one
storage share its block. Host addresses have no influence.
Assumes: one allocator per top-level call. Within the call no block is given out twice: DRAM is as large as needed.
"""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pytorchsim.target.memory_map import DRAM_ALIGNMENT_BYTES

__all__ = ["DramAllocator"]

_FEW_BLOCKS = 256
"""As many are kept without looking which of their storages are gone."""


class DramAllocator:
    """Hands out blocks upwards from address 0."""

    def __init__(self) -> None:
        # The weak reference keeps the storage's identity (not its bytes) from being given to another storage.
        self._blocks: dict[int, tuple[StorageWeakRef, int, int]] = {}
        self._next_address = 0
        self._sweep_at = _FEW_BLOCKS

    def address(self, tensor: torch.Tensor) -> int:
        """DRAM address in bytes of element 0 of `tensor`, a CPU tensor with storage."""
        storage = tensor.untyped_storage()
        return self._block(storage) + int(tensor.storage_offset()) * tensor.element_size()

    @property
    def used_bytes(self) -> int:
        """Bytes given out so far, gaps of alignment included."""
        return self._next_address

    def _block(self, storage: torch.UntypedStorage) -> int:
        identity = storage._cdata
        known = self._blocks.get(identity)
        if known is not None and known[2] >= storage.nbytes():
            return known[1]
        # New, or resized beyond its block: then it moves, as it did on the host.
        if len(self._blocks) >= self._sweep_at:
            self._forget_the_dead()
        address = self._next_address
        size = max(storage.nbytes(), 1)  # empty storages still have an identity
        self._next_address += -(-size // DRAM_ALIGNMENT_BYTES) * DRAM_ALIGNMENT_BYTES
        self._blocks[identity] = (StorageWeakRef(storage), address, storage.nbytes())
        return address

    def _forget_the_dead(self) -> None:
        """Storages that are gone are never asked for again; their addresses stay taken."""
        self._blocks = {identity: block for identity, block in self._blocks.items() if not block[0].expired()}
        self._sweep_at = max(_FEW_BLOCKS, 2 * len(self._blocks))
