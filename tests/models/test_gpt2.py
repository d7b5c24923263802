"""Does GPT-2 decode what eager decodes, from one compiled graph?"""

from __future__ import annotations

import pytest

from tests.models.decoding import check_decoding
from tests.models.table import DECODERS, Decoder

DECODED = [decoder for decoder in DECODERS if decoder.suite == "gpt2"]


@pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("decoder", DECODED, ids=lambda decoder: decoder.name)
def test_three_steps(decoder: Decoder, batch: int) -> None:
    check_decoding(decoder, batch)
