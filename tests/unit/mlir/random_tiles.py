"""Random tile functions from a seed: every element type, operation and vector length that the rules allow.

`elementwise` restricts them to operations that are defined for every input and act on each element alone (exchanges
included), so that the result does not depend on the vector length.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector
from mlir.dialects import math as mlir_math

from pytorchsim.mlir import builders

FLOATS, INTEGERS = ("f16", "bf16", "f32", "f64"), ("i8", "i16", "i32", "i64")
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}

Value = tuple[str, ir.Value]
Binary = Callable[[ir.Value, ir.Value], ir.Value]

_FLOAT_BINARY: tuple[Binary, ...] = (
    arith.addf, arith.subf, arith.mulf, arith.divf, arith.maximumf, arith.minimumf, arith.maxnumf,
)  # fmt: skip
_INTEGER_BINARY: tuple[Binary, ...] = (
    arith.addi, arith.subi, arith.muli, arith.andi, arith.ori, arith.xori,
    arith.maxsi, arith.minsi, arith.maxui, arith.minui,
)  # fmt: skip
_PARTIAL_BINARY: tuple[Binary, ...] = (
    arith.divsi, arith.remsi, arith.divui, arith.remui, arith.shli, arith.shrsi, arith.shrui,
)  # fmt: skip
_FLOAT_UNARY = ("sqrt", "rsqrt", "absf", "floor", "ceil", "roundeven", "trunc", "round")
_SPECIAL = ("exp", "tanh", "erf", "log", "sin", "cos", "atan")


@dataclass
class RandomTile:
    """Builds the same operations for the same seed, whatever the vector length `count`."""

    seed: int
    count: int
    types: tuple[str, ...]
    elementwise: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.values: list[Value] = []

    def body(self, inputs: Sequence[Value], outputs: Sequence[Value], position: ir.Value) -> None:
        """Load from every memory of `inputs`, compute, store to every memory of `outputs`; both are (type, memory)."""
        self.values = [(kind, vector.load(self._kind(kind), memory, [position])) for kind, memory in inputs]
        for _ in range(self.random.randint(3, 20)):
            self._step()
        for kind, memory in outputs:
            value = self._pick() if self.random.random() < 0.8 else self._constant(kind)
            vector.store(self._convert(value, kind)[1], memory, [position])

    def _kind(self, element: str) -> ir.VectorType:
        return ir.VectorType.get([self.count], ir.Type.parse(element))

    def _constant(self, kind: str) -> Value:
        element, number = ir.Type.parse(kind), self.random.choice([0, 0, 1, -1, 2, 3, 7, 100])
        scale = self.random.choice([1.0, 0.37])
        if kind in FLOATS:
            attribute: ir.Attribute = ir.FloatAttr.get(element, number * scale)
        else:
            attribute = ir.IntegerAttr.get(element, number & 1 if kind == "i1" else number)
        return kind, arith.constant(self._kind(kind), ir.DenseElementsAttr.get_splat(self._kind(kind), attribute))

    def _pick(self, kind: str | None = None) -> Value:
        candidates = [value for value in self.values if kind in (None, value[0])]
        if not candidates or self.random.random() < 0.15:
            return self._constant(kind or self.random.choice(self.types))
        return self.random.choice(candidates)

    def _convert(self, value: Value, kind: str) -> Value:
        source, data = value
        target = self._kind(kind)
        wider = BITS[kind] > BITS[source]
        if source == kind:
            return value
        if kind == "i1":
            zero = self._constant(source)[1]
            if source in FLOATS:
                return kind, arith.cmpf(arith.CmpFPredicate.UNE, data, zero)
            return kind, arith.cmpi(arith.CmpIPredicate.ne, data, zero)
        signed = source != "i1" and self.random.random() < 0.5
        if kind in INTEGERS and source in (*INTEGERS, "i1"):
            return kind, ((arith.extsi if signed else arith.extui) if wider else arith.trunci)(target, data)
        if kind in INTEGERS:  # out of range is poison: not for comparisons
            if self.elementwise:
                return self._constant(kind)
            return kind, (arith.fptosi if signed else arith.fptoui)(target, data)
        if source in FLOATS:
            if BITS[source] == BITS[kind]:  # f16 and bf16
                return kind, arith.truncf(target, arith.extf(self._kind("f32"), data))
            return kind, (arith.extf if wider else arith.truncf)(target, data)
        return kind, (arith.sitofp if signed else arith.uitofp)(target, data)

    def _step(self) -> None:
        value = self._pick()
        kind, left = value if value[0] != "i1" else self._convert(value, self.random.choice(self.types))
        right = self._pick(kind)[1]
        choice = self.random.randrange(10)
        if choice <= 2:
            table = _FLOAT_BINARY if kind in FLOATS else _INTEGER_BINARY
            if kind in INTEGERS and not self.elementwise:
                table += _PARTIAL_BINARY
            self.values.append((kind, self.random.choice(table)(left, right)))
        elif choice == 3:
            self._compare(kind, left, right)
        elif choice == 4:
            mask = self._convert(self._pick(), "i1")[1]
            self.values.append((kind, arith.select(mask, left, right)))
        elif choice == 5:
            self.values.append(self._convert((kind, left), self.random.choice([*self.types, "i1"])))
        elif choice == 6:
            self.values.append((kind, builders.exchange(left, self.random.randrange(3))))
        elif choice == 7 and kind in FLOATS:
            self.values.append((kind, getattr(mlir_math, self.random.choice(_FLOAT_UNARY))(left)))
        elif choice == 8 and kind == "f32":
            self.values.append((kind, getattr(mlir_math, self.random.choice(_SPECIAL))(left)))
        elif choice == 9 and not self.elementwise:
            self._move(kind, left, right)

    def _compare(self, kind: str, left: ir.Value, right: ir.Value) -> None:
        if kind in FLOATS:
            predicates = [
                arith.CmpFPredicate.OEQ,
                arith.CmpFPredicate.OLT,
                arith.CmpFPredicate.UGE,
                arith.CmpFPredicate.ONE,
            ]
            self.values.append(("i1", arith.cmpf(self.random.choice(predicates), left, right)))
        else:
            predicate = self.random.choice([arith.CmpIPredicate.eq, arith.CmpIPredicate.slt, arith.CmpIPredicate.uge])
            self.values.append(("i1", arith.cmpi(predicate, left, right)))

    def _move(self, kind: str, left: ir.Value, right: ir.Value) -> None:
        if self.random.random() < 0.5:
            self.values.append((kind, builders.splat(left, self.random.randrange(self.count))))
            return
        mask = [self.random.randrange(2 * self.count) for _ in range(self.count)]
        if len({element % self.count for element in mask}) > 1:
            self.values.append((kind, vector.shuffle(left, right, mask)))
