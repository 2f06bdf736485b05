"""Registers verifier and drafter as fairseq2 model families, with asset cards of the bundled models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, cast

from fairseq2.composition import register_in_memory_assets, register_model_family
from fairseq2.models.hub import ModelHubAccessor
from fairseq2.models.transformer import TransformerModel
from fairseq2.runtime.config_registry import ConfigRegistrar
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor

from specmt.models.config import DRAFTER_ARCHS, VERIFIER_ARCHS, DrafterConfig, VerifierConfig
from specmt.models.drafter import MaskedDrafter, create_drafter
from specmt.models.folder import DRAFTER, VERIFIER, bundled
from specmt.models.verifier import create_verifier, tie_weights

VERIFIER_FAMILY: Final = "specmt_verifier"
DRAFTER_FAMILY: Final = "specmt_drafter"

get_verifier_hub = ModelHubAccessor(VERIFIER_FAMILY, kls=TransformerModel, config_kls=VerifierConfig)
get_drafter_hub = ModelHubAccessor(DRAFTER_FAMILY, kls=MaskedDrafter, config_kls=DrafterConfig)


def register(container: DependencyContainer) -> None:
    """Adds the families, their architectures and the cards of the bundled models; fairseq2 calls it at start."""
    register_model_family(
        container,
        VERIFIER_FAMILY,
        kls=TransformerModel,
        config_kls=VerifierConfig,
        factory=create_verifier,
        supports_meta=False,
        state_dict_converter=_convert_verifier,
    )
    register_model_family(
        container,
        DRAFTER_FAMILY,
        kls=MaskedDrafter,
        config_kls=DrafterConfig,
        factory=create_drafter,
        supports_meta=False,
        state_dict_converter=_convert_drafter,
    )
    verifiers, drafters = ConfigRegistrar(container, VerifierConfig), ConfigRegistrar(container, DrafterConfig)
    for name, verifier in VERIFIER_ARCHS.items():
        verifiers(name)(verifier)
    for name, drafter in DRAFTER_ARCHS.items():
        drafters(name)(drafter)
    register_in_memory_assets(container, "specmt", asset_cards())


def asset_cards() -> list[dict[str, object]]:
    """Returns the asset cards of the bundled models: ``specmt-SOURCE-TARGET`` and ``…-drafter``."""
    cards: list[dict[str, object]] = []
    for model in bundled():
        name = f"specmt-{model.source}-{model.target}"
        cards.append(
            {
                "name": name,
                "model_family": VERIFIER_FAMILY,
                "model_arch": "small",
                "model_config": asdict(model.verifier),
                "checkpoint": (model.path / VERIFIER).as_uri(),
            }
        )
        if model.drafter is not None:
            cards.append(
                {
                    "name": f"{name}-drafter",
                    "model_family": DRAFTER_FAMILY,
                    "model_arch": "small",
                    "model_config": asdict(model.drafter),
                    "checkpoint": (model.path / DRAFTER).as_uri(),
                }
            )
    return cards


def _convert_verifier(state_dict: dict[str, object], config: VerifierConfig) -> dict[str, object]:
    return tie_weights(cast(Mapping[str, Tensor], state_dict))


def _convert_drafter(state_dict: dict[str, object], config: DrafterConfig) -> dict[str, object]:
    return {name: cast(Tensor, tensor).float() for name, tensor in state_dict.items()}
