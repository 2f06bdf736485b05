"""Registers verifier and drafters as fairseq2 model families, with asset cards of the bundled models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final, cast

from fairseq2.composition import register_in_memory_assets, register_model_family
from fairseq2.models.hub import ModelHubAccessor
from fairseq2.models.transformer import TransformerModel
from fairseq2.runtime.config_registry import ConfigRegistrar
from fairseq2.runtime.dependency import DependencyContainer
from torch import Tensor
from torch.nn import Module

from specmt.models.config import ARCHS, DecoderConfig, DrafterConfig, NetworkConfig, VerifierConfig
from specmt.models.folder import AUTOREGRESSIVE, DRAFTER, VERIFIER, bundled
from specmt.models.reference.modules import (
    AutoregressiveDrafter,
    MaskedDrafter,
    create_autoregressive,
    create_drafter,
    create_verifier,
    tie_weights,
)
from specmt.models.reference.weights import from_stored

VERIFIER_FAMILY: Final = "specmt_verifier"
DRAFTER_FAMILY: Final = "specmt_drafter"
AUTOREGRESSIVE_FAMILY: Final = "specmt_autoregressive"

get_verifier_hub = ModelHubAccessor(VERIFIER_FAMILY, kls=TransformerModel, config_kls=VerifierConfig)
get_drafter_hub = ModelHubAccessor(DRAFTER_FAMILY, kls=MaskedDrafter, config_kls=DrafterConfig)
get_autoregressive_hub = ModelHubAccessor(AUTOREGRESSIVE_FAMILY, kls=AutoregressiveDrafter, config_kls=DecoderConfig)


def register(container: DependencyContainer) -> None:
    """Adds the families, their architectures and the cards of the bundled models; fairseq2 calls it at start."""
    families: tuple[tuple[str, type[Module], type[NetworkConfig], Any, Any], ...] = (
        (VERIFIER_FAMILY, TransformerModel, VerifierConfig, create_verifier, _convert_verifier),
        (DRAFTER_FAMILY, MaskedDrafter, DrafterConfig, create_drafter, _convert_drafter),
        (AUTOREGRESSIVE_FAMILY, AutoregressiveDrafter, DecoderConfig, create_autoregressive, _convert_drafter),
    )
    for name, kls, config_kls, factory, converter in families:
        register_model_family(
            container,
            name,
            kls=kls,
            config_kls=config_kls,
            factory=factory,
            supports_meta=False,
            state_dict_converter=converter,
        )
        registrar = ConfigRegistrar(container, config_kls)
        for arch, changes in ARCHS.items():
            registrar(arch)(partial(config_kls, **changes))  # type: ignore[arg-type]
    register_in_memory_assets(container, "specmt", asset_cards())


def asset_cards() -> list[dict[str, object]]:
    """Returns the asset cards of the bundled models: ``specmt-SOURCE-TARGET``, ``…-drafter``, ``…-autoregressive``."""
    return [
        {
            "name": f"specmt-{model.source}-{model.target}{suffix}",
            "model_family": family,
            "model_arch": "small",
            "model_config": asdict(config),
            "checkpoint": model.file(file).as_uri(),
        }
        for model in bundled()
        for suffix, family, config, file in (
            ("", VERIFIER_FAMILY, model.verifier, VERIFIER),
            ("-drafter", DRAFTER_FAMILY, model.drafter, DRAFTER),
            ("-autoregressive", AUTOREGRESSIVE_FAMILY, model.autoregressive, AUTOREGRESSIVE),
        )
        if config is not None
    ]


def _convert_verifier(state_dict: dict[str, object], config: VerifierConfig) -> dict[str, object]:
    return tie_weights(from_stored(cast(Mapping[str, Tensor], state_dict)))


def _convert_drafter(state_dict: dict[str, object], config: DecoderConfig) -> dict[str, object]:
    return dict(from_stored(cast(Mapping[str, Tensor], state_dict)))
