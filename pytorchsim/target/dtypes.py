"""Element types of the machine. Signedness is part of the type and is never lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["ALL_DTYPES", "Dtype", "Kind", "by_name"]


class Kind(Enum):
    """How the bits of an element are read."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"


@dataclass(frozen=True)
class Dtype:
    """One element type.

    `code` is the number in DMA descriptors and array instructions; `mlir` the MLIR type that holds the bits
    (bool lives in memory as one byte, 0 or 1).
    """

    name: str
    code: int
    kind: Kind
    bits: int
    mlir: str

    @property
    def bytes(self) -> int:
        """Size of one element in memory."""
        return self.bits // 8


F32 = Dtype("float32", 0, Kind.FLOAT, 32, "f32")
F16 = Dtype("float16", 1, Kind.FLOAT, 16, "f16")
BF16 = Dtype("bfloat16", 2, Kind.FLOAT, 16, "bf16")
F8E4M3FN = Dtype("float8_e4m3fn", 3, Kind.FLOAT, 8, "i8")
F8E5M2 = Dtype("float8_e5m2", 4, Kind.FLOAT, 8, "i8")
I8 = Dtype("int8", 5, Kind.SIGNED, 8, "i8")
U8 = Dtype("uint8", 6, Kind.UNSIGNED, 8, "i8")
I32 = Dtype("int32", 7, Kind.SIGNED, 32, "i32")
F64 = Dtype("float64", 8, Kind.FLOAT, 64, "f64")
I16 = Dtype("int16", 9, Kind.SIGNED, 16, "i16")
U16 = Dtype("uint16", 10, Kind.UNSIGNED, 16, "i16")
U32 = Dtype("uint32", 11, Kind.UNSIGNED, 32, "i32")
I64 = Dtype("int64", 12, Kind.SIGNED, 64, "i64")
U64 = Dtype("uint64", 13, Kind.UNSIGNED, 64, "i64")
BOOL = Dtype("bool", 14, Kind.BOOL, 8, "i8")

ALL_DTYPES = (F32, F16, BF16, F8E4M3FN, F8E5M2, I8, U8, I32, F64, I16, U16, U32, I64, U64, BOOL)
_BY_NAME = {dtype.name: dtype for dtype in ALL_DTYPES}


def by_name(name: str) -> Dtype:
    """The dtype called `name` (torch's name without `torch.`). KeyError lists what exists."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise KeyError(f"no machine dtype {name!r}; known: {', '.join(_BY_NAME)}") from None
