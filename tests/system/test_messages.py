"""Do errors of a compile begin with what the user wrote, and end with our advice?"""

from __future__ import annotations

import pytest
import torch

from pytorchsim.errors import ConfigError, HostOpWarning, UnsupportedError


def test_random_numbers_lead_with_the_operation() -> None:
    drop = torch.nn.Dropout()
    with pytest.raises(UnsupportedError, match=r"^(native_)?dropout.*random numbers are not built yet; call eval\(\)"):
        torch.compile(drop, backend="pytorchsim", options={"config": "tiny"})(torch.randn(8))
    with pytest.raises(
        UnsupportedError, match=r"^rand.* \(test_messages\.py:\d+\): .*pass random tensors in as inputs"
    ):
        torch.compile(lambda x: x + torch.rand(8), backend="pytorchsim", options={"config": "tiny"})(torch.randn(8))
    kept = torch.compile(drop.eval(), backend="pytorchsim", options={"config": "tiny", "strict": True})
    torch.testing.assert_close(kept(torch.ones(8)), torch.ones(8))


@pytest.mark.parametrize("options", [{"config": "nope"}, {"strikt": True}, {"mode": "fast"}])
def test_errors_end_with_our_own_words(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        torch.compile(torch.relu, backend="pytorchsim", options=options)(torch.randn(8))
    assert "TORCHDYNAMO" not in str(caught.value)


def test_host_ops_of_modules_name_a_line() -> None:
    class Sorted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sort(torch.linalg.inv(x))[0]

    with pytest.warns(HostOpWarning) as caught:
        torch.compile(Sorted(), backend="pytorchsim", options={"config": "tiny"})(torch.eye(4))
    assert caught
    for warning in caught:
        if isinstance(warning.message, HostOpWarning):
            assert "<graph>" not in warning.filename, str(warning.message)
            assert warning.lineno > 0
