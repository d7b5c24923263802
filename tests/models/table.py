"""The one table of models: what is built, what it is given, how near its results must come, which suite runs it.

Everything about a model stands here; the suites, the continuous integration's jobs and the README's coverage table are
made from it. Weights are random, configurations in code: nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: no weights from a hub, ever

import torch
import transformers
from torch import nn

from tests.models.vision import MobileNetV2, ResNet18

__all__ = ["DECODERS", "MODELS", "SUITES", "Decoder", "Inputs", "ModelCase", "cases"]

Inputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class ModelCase:
    """A model of the table.

    `largest_difference` from eager: the bar, unless the error against float64 is at most twice eager's own. `trained`:
    gradients of all parameters are compared, too. `slow`: not in the run of every commit.
    """

    name: str
    suite: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    largest_difference: float = 1e-5
    batches: tuple[int, ...] = (2,)
    more_batches: tuple[int, ...] = (1, 3)
    trained: bool = True
    slow: bool = False
    operations: tuple[str, ...] = ()
    """ATen operations that must be in the graph."""


@dataclass(frozen=True)
class Decoder:
    """A language model that decodes with a static cache, one token at a time. `cache_heads`, `head_size`: of the
    cache's tensors."""

    name: str
    suite: str
    build: Callable[[], nn.Module]
    cache_heads: int
    head_size: int
    slow: bool = False


class Tensors(nn.Module):
    """A model of transformers whose result is a tuple of its tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: Any) -> tuple[torch.Tensor, ...]:
        values = self.model(**inputs).to_tuple()
        return tuple(value for value in values if isinstance(value, torch.Tensor))


def _images(size: int, batch: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def _tokens(vocabulary: int, length: int, batch: int) -> Inputs:
    ids = torch.randint(3, vocabulary - 3, (batch, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


# ---- SwinV2 --------------------------------------------------------------------------------------------------------


def _swinv2(image: int) -> nn.Module:
    config = transformers.Swinv2Config(
        image_size=image, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=8
    )
    return Tensors(transformers.Swinv2Model(config))


# ---- CLIP ----------------------------------------------------------------------------------------------------------

_CLIP_TEXT = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 500,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 499,
}
_CLIP_VISION = {
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 32,
}


def _clip_vision() -> nn.Module:
    return Tensors(transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**_CLIP_VISION)))


def _clip_vision_base() -> nn.Module:
    return Tensors(transformers.CLIPVisionModel(transformers.CLIPVisionConfig(num_hidden_layers=1, patch_size=32)))


def _clip_text() -> nn.Module:
    return Tensors(transformers.CLIPTextModel(transformers.CLIPTextConfig(**_CLIP_TEXT)))


def _clip() -> nn.Module:
    config = transformers.CLIPConfig(text_config=_CLIP_TEXT, vision_config=_CLIP_VISION, projection_dim=64)
    return Tensors(transformers.CLIPModel(config))


def _clip_inputs(batch: int) -> Inputs:
    return {**_images(64, batch), **_tokens(500, 16, batch)}


# ---- ConvNeXtV2 ----------------------------------------------------------------------------------------------------


def _convnextv2(widths: list[int]) -> nn.Module:
    config = transformers.ConvNextV2Config(depths=[1, 1, 1, 1], hidden_sizes=widths, image_size=64)
    return Tensors(transformers.ConvNextV2Model(config))


# ---- Transformers of language --------------------------------------------------------------------------------------


def _vit() -> nn.Module:
    return Tensors(transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=1), add_pooling_layer=False))


def _bert() -> nn.Module:
    return Tensors(transformers.BertModel(transformers.BertConfig(num_hidden_layers=2)))


def _gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=1000))


def _llama() -> nn.Module:
    config = transformers.LlamaConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=500,
    )
    return transformers.LlamaForCausalLM(config)


# ---- Convolutional networks ----------------------------------------------------------------------------------------


def _picture(memory_format: torch.memory_format, size: int, batch: int) -> Inputs:
    return {"x": torch.randn(batch, 3, size, size).to(memory_format=memory_format)}


def _channels_last(build: Callable[[], nn.Module]) -> nn.Module:
    return build().to(memory_format=torch.channels_last)


MODELS: tuple[ModelCase, ...] = (
    ModelCase("SwinV2, image 64", "swinv2", partial(_swinv2, 64), partial(_images, 64), operations=("aten.roll",)),
    ModelCase(
        "SwinV2, image 56", "swinv2", partial(_swinv2, 56), partial(_images, 56), operations=("aten.roll",), slow=True
    ),
    ModelCase("CLIP vision", "clip", _clip_vision, partial(_images, 64), 2e-5),
    ModelCase("CLIP vision, base", "clip", _clip_vision_base, partial(_images, 224), 2e-5, trained=False, slow=True),
    ModelCase("CLIP text", "clip", _clip_text, partial(_tokens, 500, 16), 2e-5, more_batches=(3,)),
    ModelCase("CLIP", "clip", _clip, _clip_inputs, 2e-5),
    ModelCase("ConvNeXtV2", "convnextv2", partial(_convnextv2, [16, 32, 48, 64]), partial(_images, 64)),
    ModelCase(
        "ConvNeXtV2, tiny's widths",
        "convnextv2",
        partial(_convnextv2, [96, 192, 384, 768]),
        partial(_images, 64),
        slow=True,
    ),
    ModelCase(
        "ResNet-18",
        "resnet",
        ResNet18,
        partial(_picture, torch.contiguous_format, 224),
        batches=(1,),
        more_batches=(2, 3),
        trained=False,
    ),
    ModelCase(
        "ResNet-18, channels last",
        "resnet",
        partial(_channels_last, ResNet18),
        partial(_picture, torch.channels_last, 224),
        batches=(1,),
        more_batches=(2,),
        trained=False,
        slow=True,
    ),
    ModelCase(
        "ResNet-18, image 32",
        "resnet",
        partial(ResNet18, 10),
        partial(_picture, torch.contiguous_format, 32),
        more_batches=(),
        slow=True,
    ),
    ModelCase(
        "MobileNetV2",
        "mobilenet",
        partial(MobileNetV2, 10),
        partial(_picture, torch.contiguous_format, 64),
        batches=(1,),
        more_batches=(2, 3),
    ),
    ModelCase(
        "MobileNetV2, channels last",
        "mobilenet",
        partial(_channels_last, MobileNetV2),
        partial(_picture, torch.channels_last, 224),
        batches=(1,),
        more_batches=(),
        trained=False,
        slow=True,
    ),
    ModelCase("ViT-B/16, one layer", "vit", _vit, partial(_images, 224), batches=(1,), more_batches=(2, 3)),
    ModelCase("BERT-base, two layers", "bert", _bert, partial(_tokens, 30000, 128), batches=(1,), more_batches=(2, 3)),
)

DECODERS: tuple[Decoder, ...] = (
    Decoder("GPT-2, two layers, decoding", "gpt2", _gpt2, cache_heads=4, head_size=64),
    Decoder("Llama, two layers, decoding", "llama", _llama, cache_heads=2, head_size=32),
)

SUITES: tuple[str, ...] = tuple(dict.fromkeys(case.suite for case in (*MODELS, *DECODERS)))
"""Names of the suites: `tests/models/test_<suite>.py`."""


def cases(suite: str) -> list[ModelCase]:
    """The models of a suite."""
    return [case for case in MODELS if case.suite == suite]
