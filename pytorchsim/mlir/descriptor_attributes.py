"""`npu.descriptor` attributes <-> `pytorchsim.target.descriptor.Descriptor`, one to one.

In: a `Descriptor` and the buffers its addresses lie in. Out: the op's attributes, and back. The linker places
buffers, so an index tile in a buffer has as `spad_address` its bytes behind the buffer's start, and a local transfer
as `offset` likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, DescriptorFlag, IndexTile, TransferOp

__all__ = ["DescriptorBuffers", "descriptor_attributes", "descriptor_of"]

_U64 = 1 << 64


@dataclass(frozen=True)
class DescriptorBuffers:
    """Symbols of the buffers that a descriptor's addresses lie in.

    `index_tiles` has an entry per index tile, or none.
    """

    index_tiles: tuple[str | None, ...] = ()
    local: str | None = None

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every buffer named."""
        return tuple(symbol for symbol in (*self.index_tiles, self.local) if symbol is not None)


def descriptor_attributes(
    descriptor: Descriptor, buffers: DescriptorBuffers = DescriptorBuffers()
) -> dict[str, ir.Attribute]:
    """Every attribute of `npu.descriptor` except `sym_name`.

    Needs a current context. ValueError if `buffers` do not fit.
    """
    tiles = buffers.index_tiles or (None,) * len(descriptor.index_tiles)
    if len(tiles) != len(descriptor.index_tiles):
        raise ValueError(f"{len(descriptor.index_tiles)} index tiles but {len(tiles)} buffers for them")
    if buffers.local is not None and not descriptor.flags & DescriptorFlag.LOCAL:
        raise ValueError("only a local transfer has a buffer on its DRAM side")
    axes = [
        {
            "size": _i64(axis.size),
            "dram_stride": _i64(axis.dram_stride),
            "spad_stride": _i64(axis.spad_stride),
            "lane": ir.BoolAttr.get(axis.lane),
        }
        for axis in descriptor.axes
    ]
    bounds = [
        {"base": _i64(bound.base), "steps": ir.DenseI64ArrayAttr.get(list(bound.steps)), "extent": _i64(bound.extent)}
        for bound in descriptor.bounds
    ]
    return {
        "slot": _i64(descriptor.slot),
        "op": ir.StringAttr.get(descriptor.op.name.lower()),
        "dtype": ir.StringAttr.get(descriptor.dtype.name),
        "axes": _records(axes),
        "offset": _i64(descriptor.offset),
        "spad_address": _i64(descriptor.spad_address),
        "lane_stride": _i64(descriptor.lane_stride),
        "fill": _i64(descriptor.fill),
        "bounds": _records(bounds),
        "index_tiles": _records([_index_tile(*pair) for pair in zip(descriptor.index_tiles, tiles, strict=True)]),
        "flags": _i64(int(descriptor.flags)),
        "local_buffer": ir.StringAttr.get(buffers.local or ""),
    }


def descriptor_of(attributes: Mapping[str, ir.Attribute]) -> tuple[Descriptor, DescriptorBuffers]:
    """The descriptor that an op's attributes say, and its buffers.

    ValueError says what is wrong: a missing or unknown field, a wrong type, or what `Descriptor` itself refuses.
    """
    axes = []
    for record in _dictionaries(attributes, "axes", {"size", "dram_stride", "spad_stride", "lane"}):
        lane = record["lane"]
        if not isinstance(lane, ir.BoolAttr):
            raise ValueError(f"field 'lane' of an axis is a boolean, not {lane}")
        axes.append(Axis(_int(record, "size"), _int(record, "dram_stride"), _int(record, "spad_stride"), lane.value))
    bounds = tuple(
        Bound(_int(record, "base"), _ints(record, "steps"), _int(record, "extent"))
        for record in _dictionaries(attributes, "bounds", {"base", "steps", "extent"})
    )
    tiles, buffers = [], []
    fields = {"spad_address", "wide", "axes", "dram_stride", "extent", "wrap"}
    for record in _dictionaries(attributes, "index_tiles", fields, optional={"buffer"}):
        tiles.append(
            IndexTile(
                _int(record, "spad_address"),
                bool(_int(record, "wide")),
                _ints(record, "axes"),
                _int(record, "dram_stride"),
                _int(record, "extent"),
                bool(_int(record, "wrap")),
            )
        )
        buffers.append(ir.FlatSymbolRefAttr(record["buffer"]).value if "buffer" in record else None)
    op = TransferOp[_string(attributes, "op").upper()]
    try:
        dtype = dtypes.by_name(_string(attributes, "dtype"))
    except KeyError as error:
        raise ValueError(error.args[0]) from None
    descriptor = Descriptor(
        slot=_int(attributes, "slot"),
        op=op,
        dtype=dtype,
        axes=tuple(axes),
        offset=_int(attributes, "offset"),
        spad_address=_int(attributes, "spad_address"),
        lane_stride=_int(attributes, "lane_stride"),
        fill=_int(attributes, "fill") % _U64,
        bounds=bounds,
        index_tiles=tuple(tiles),
        flags=DescriptorFlag(_int(attributes, "flags")),
    )
    return descriptor, DescriptorBuffers(tuple(buffers), _string(attributes, "local_buffer") or None)


def _index_tile(tile: IndexTile, buffer: str | None) -> dict[str, ir.Attribute]:
    fields: dict[str, ir.Attribute] = {
        "spad_address": _i64(tile.spad_address),
        "wide": ir.BoolAttr.get(tile.wide),
        "axes": ir.DenseI64ArrayAttr.get(list(tile.axes)),
        "dram_stride": _i64(tile.dram_stride),
        "extent": _i64(tile.extent),
        "wrap": ir.BoolAttr.get(tile.wrap),
    }
    if buffer is not None:
        fields["buffer"] = ir.FlatSymbolRefAttr.get(buffer)
    return fields


def _i64(value: int) -> ir.IntegerAttr:
    """`value` as i64; an unsigned pattern (fill) is stored in two's complement."""
    wrapped = value % _U64
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), wrapped - _U64 if wrapped >= _U64 // 2 else wrapped)


def _records(rows: Sequence[Mapping[str, ir.Attribute]]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.DictAttr.get(dict(row)) for row in rows])


def _dictionaries(
    attributes: Mapping[str, ir.Attribute], name: str, fields: set[str], optional: set[str] | None = None
) -> list[dict[str, ir.Attribute]]:
    """The dictionaries of array attribute `name`, each with exactly `fields` and perhaps `optional` ones."""
    rows = []
    for row in ir.ArrayAttr(attributes[name]):
        if not isinstance(row, ir.DictAttr):
            raise ValueError(f"{name} holds dictionaries, not {row}")
        record = {item.name: item.attr for item in row}
        if missing := sorted(fields - record.keys()):
            raise ValueError(f"an entry of {name} lacks {', '.join(missing)}")
        if unknown := sorted(record.keys() - fields - (optional or set())):
            raise ValueError(f"an entry of {name} has unknown fields {', '.join(unknown)}")
        rows.append(record)
    return rows


def _int(record: Mapping[str, ir.Attribute], name: str) -> int:
    attribute = record[name]
    if isinstance(attribute, ir.BoolAttr):
        return int(attribute.value)
    if not isinstance(attribute, ir.IntegerAttr):
        raise ValueError(f"field {name!r} is an integer, not {attribute}")
    return int(attribute.value)


def _ints(record: Mapping[str, ir.Attribute], name: str) -> tuple[int, ...]:
    attribute = record[name]
    if not isinstance(attribute, ir.DenseI64ArrayAttr):
        raise ValueError(f"field {name!r} is array<i64: ...>, not {attribute}")
    return tuple(int(value) for value in attribute)


def _string(record: Mapping[str, ir.Attribute], name: str) -> str:
    return str(ir.StringAttr(record[name]).value)
