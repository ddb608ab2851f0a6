"""Every transformer class of the installed Diffusers has a configuration."""

import diffusers.models.transformers
import torch
from report import third

from models import MODELS


def transformer_classes():
    found = vars(diffusers.models.transformers).values()
    return {c.__name__ for c in found if isinstance(c, type) and issubclass(c, torch.nn.Module)}


def test_every_transformer_class_is_described():
    described = {tiny.class_name for tiny in MODELS.values() if tiny.kind == "transformer"}
    assert transformer_classes() - described == set()


def test_described_classes_exist():
    described = {tiny.class_name for tiny in MODELS.values() if tiny.kind == "transformer"}
    assert described - transformer_classes() == set()


def test_the_third_has_every_kind():
    chosen = third(list(MODELS.values()))
    assert {tiny.kind for tiny in chosen} == {tiny.kind for tiny in MODELS.values()}
    assert len(MODELS) / 4 < len(chosen) < len(MODELS) / 2
