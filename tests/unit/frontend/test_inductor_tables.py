"""Settings and decompositions: ours exist in this torch, and Inductor's own are as before."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import lowerings, user_lowerings

from pytorchsim.config import load_config
from pytorchsim.config.session import Session
from pytorchsim.frontend import backend as _backend  # noqa: F401  importing it registers our lowerings
from pytorchsim.frontend.decompositions import decomposition_table
from pytorchsim.frontend.registration import compiling_for_npu
from pytorchsim.frontend.settings import inductor_settings
from pytorchsim.frontend.source_key import source_key

aten = torch.ops.aten
SESSION = Session(load_config("tiny"))


def test_every_setting_exists_and_is_undone() -> None:
    settings = inductor_settings(SESSION)
    policy = settings["_pre_fusion_custom_pass"]
    before = inductor_config.get_config_copy()
    assert set(settings) <= set(before)
    assert not compiling_for_npu()
    with inductor_config.patch(settings):
        assert compiling_for_npu()
        assert inductor_config._pre_fusion_custom_pass is policy
        now = inductor_config.get_config_copy()
        assert {name: now[name] for name in settings} | {"_pre_fusion_custom_pass": policy} == settings
    assert inductor_config.get_config_copy() == before


def test_cache_identity_has_sources_and_session() -> None:
    def identity(session: Session) -> Any:
        return inductor_settings(session)["_pre_fusion_custom_pass"].uuid()

    assert source_key() in identity(SESSION)
    assert identity(SESSION) == identity(Session(load_config("tiny")))
    assert identity(SESSION) != identity(Session(load_config("tiny"), strict=True))


def test_decompositions_leave_inductors_table_alone() -> None:
    before = dict(select_decomp_table())
    table = decomposition_table()
    assert dict(select_decomp_table()) == before
    ours = set(before) - set(table)
    assert ours >= {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.roll.default}
    assert ours <= set(user_lowerings) | set(lowerings)  # what is not decomposed is lowered


def test_a_table_has_a_stable_pickle() -> None:
    assert pickle.dumps(decomposition_table()) == pickle.dumps(decomposition_table())
    assert source_key() in pickle.loads(pickle.dumps(decomposition_table()))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("make", ["contiguous", "transposed", "sliced", "ties", "vector", "scalar"])
def test_argmax_over_everything_numbers_elements_logically(name: str, keepdim: bool, make: str) -> None:
    x = {
        "contiguous": torch.randn(4, 5, 6),
        "transposed": torch.randn(4, 5, 6).permute(2, 0, 1),
        "sliced": torch.randn(8, 9)[1::2, ::3],
        "ties": torch.zeros(3, 4).t(),
        "vector": torch.randn(7),
        "scalar": torch.tensor(2.0),
    }[make]
    overload = getattr(aten, name).default
    actual = decomposition_table()[overload](x, None, keepdim)
    if actual is NotImplemented:
        assert x.dim() <= 1
    else:
        assert torch.equal(actual, overload(x, None, keepdim))


def test_argmax_along_an_axis_stays() -> None:
    assert decomposition_table()[aten.argmax.default](torch.randn(3, 4), 1, False) is NotImplemented
