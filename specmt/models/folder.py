"""A model on disk: a folder with configuration, weights, SentencePiece model and model card; no pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final, TypeVar

import platformdirs

from specmt.engine.protocols import Kind
from specmt.engine.weights import Weight
from specmt.errors import ModelError, UsageError
from specmt.files import stamp
from specmt.languages import check_pair, find_code
from specmt.models.config import (
    DecoderConfig,
    DrafterConfig,
    ShortlistConfig,
    VerifierConfig,
    check_bool,
    check_choice,
    check_files,
    check_fit,
    check_language,
    check_whole,
    read_calibrations,
    read_confidence,
    read_heads,
    read_network,
)
from specmt.models.reading import check_regular, read_json
from specmt.models.tensors import read_tensors
from specmt.options import DTYPES, AlignmentHeads, Calibration
from specmt.text.confidence import Confidence
from specmt.text.pieces import PIECES as PIECES
from specmt.text.printable import printable

T = TypeVar("T")

CONFIG: Final = "config.json"
CARD: Final = "README.md"
VERIFIER: Final = "verifier.safetensors"
DRAFTER: Final = "drafter.safetensors"
AUTOREGRESSIVE: Final = "autoregressive.safetensors"
SHORTLIST: Final = "shortlist.safetensors"
DRAFTERS: Final[Mapping[Kind, str]] = {"masked": DRAFTER, "autoregressive": AUTOREGRESSIVE}
"""The files of drafters, by kind."""

NETWORKS: Final = (VERIFIER, *DRAFTERS.values())

FORMAT: Final = 2
"""The latest version of a folder, in which weights may be in int8; a folder of a later one is refused."""

MOST_CONFIG: Final = 1 << 20
"""The most bytes of a configuration; the bundled ones have 3,000."""

ASSETS: Final = Path(__file__).resolve().parent.parent / "assets"
"""Where the models that come with the program are."""


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """The configuration of a model folder."""

    path: Path
    source: str
    target: str
    verifier: VerifierConfig
    drafter: DrafterConfig | None
    files: Mapping[str, str]
    """File names and their sha256."""

    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    """Of drafters, by name, as far as they were measured."""

    autoregressive: DecoderConfig | None = None
    """Of the autoregressive drafter, if there is one beside the masked."""

    shortlist: ShortlistConfig | None = None
    """Of the vocabulary shortlist, if one was learnt."""

    alignment: AlignmentHeads | None = None
    """The attention heads that tell best which words belong together, if that was measured."""

    protect: bool = True
    """Whether placeholders are masked by default; not for imported models, which were trained without the masks."""

    dtype: str = "auto"
    """The number format that it computes in unless another one is named."""

    longest: int | None = None
    """The most source pieces of a sentence that the model translates well, measured: longer ones are cut at clauses."""

    confidence: Confidence | None = None
    """What tells how likely translations are to be acceptable, if that was fitted."""

    @staticmethod
    def read(path: Path) -> ModelFolder:
        """Reads a folder's configuration; weights are not touched.

        :raises ModelError: there is no model, or its configuration is damaged or of a newer version.
        """
        record = read_record(path)
        try:
            return _folder(path, record)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            reason = printable(str(error)).rstrip(".")
            raise ModelError(f"{path / CONFIG}: is not a model configuration of this version ({reason}).") from error

    @property
    def drafters(self) -> dict[Kind, DecoderConfig]:
        """The configurations of the drafters that there are, by kind."""
        configs: dict[Kind, DecoderConfig | None] = {"masked": self.drafter, "autoregressive": self.autoregressive}
        return {kind: config for kind, config in configs.items() if config is not None}

    @property
    def alignment_heads(self) -> AlignmentHeads:
        """The heads that alignments are read from: where they were not measured, all of the last layer but one."""
        layer = max(0, self.verifier.decoder_layers - 2)
        return self.alignment or AlignmentHeads(layer=layer, heads=tuple(range(self.verifier.num_heads)))

    @property
    def sha256(self) -> str:
        """A hash that stands for all files of the model."""
        return hashlib.sha256(json.dumps(dict(sorted(self.files.items()))).encode()).hexdigest()

    def file(self, name: str) -> Path:
        """Returns where a file is: beside its place where it was written a moment ago (specmt.models.writing)."""
        beside = place_beside(self.path / name, self.files.get(name, ""))
        return beside if beside.exists() else self.path / name

    def verified(self, name: str, advance: Callable[[int], object] = lambda _: None) -> Path:
        """Returns the path of a file after checking its sha256.

        :param advance: called with each number of bytes as it is read
        :raises ModelError: the file is missing or is not what it should be.
        """
        if name not in self.files:
            raise ModelError(f"{self.path}: the model has no {name}.")
        path = self.file(name)
        try:
            actual = file_sha256(check_regular(path), advance)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror}); fetch the model again.") from error
        if actual != self.files[name]:
            expected = self.files[name]
            raise ModelError(
                f"{path}: is damaged or truncated; sha256 must be {expected}, but is {actual} instead. "
                "Fetch the model again."
            )
        return path

    def weights(self, name: str) -> dict[str, Weight]:
        """Returns the weights in the verified file of a network, all of them finite.

        :raises ModelError: the file is missing, damaged or not what it should be, or is replaced at this moment.
        """
        path = self.file(name)
        before = stamp(path)
        weights = read_tensors(self.verified(name))
        if stamp(path) != before:
            raise ModelError(f"{path}: has changed while it was read.")
        return weights


def read_settled(folder: ModelFolder, read: Callable[[ModelFolder], T]) -> T:
    """Returns what is read of a model; it is read again where another model took its place meanwhile.

    :raises ModelError: what is read is damaged.
    """
    while True:
        places, failure = [*map(folder.file, folder.files)], None
        try:
            found = read(folder)
        except ModelError as error:
            failure = error
        before, folder = folder, ModelFolder.read(folder.path)
        if folder == before and [*map(folder.file, folder.files)] == places:
            if failure is not None:
                raise failure
            return found


def place_beside(path: Path, digest: str) -> Path:
    """Returns where a file waits for its place, from before a configuration names it until after."""
    return path.with_name(f"{path.name}.{digest}")


def read_record(path: Path) -> dict[str, Any]:
    """Returns a folder's configuration as it is in JSON.

    :raises ModelError: there is none, or it is damaged.
    """
    try:
        (path / CONFIG).stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"{path}: is no model folder ({CONFIG}: {reason}).") from error
    return read_json(path / CONFIG, most=MOST_CONFIG)


def _folder(path: Path, record: Mapping[str, Any]) -> ModelFolder:
    """
    :raises KeyError, TypeError, ValueError, UsageError: the configuration is none.
    """
    form = record.get("format", 1)
    if type(form) is not int or form < 1:
        raise ValueError(f"`format` must be a number from 1 to {FORMAT}, but is {shortened(form)} instead")
    if form > FORMAT:
        raise ModelError(f"{path / CONFIG}: was made by a newer specmt, as format {shortened(form)}; update this one.")
    verifier = read_network(VerifierConfig, record["verifier"])
    drafter = None if record["drafter"] is None else read_network(DrafterConfig, record["drafter"])
    if drafter is not None:
        check_fit(drafter, verifier)
    autoregressive = None
    if record.get("autoregressive") is not None:
        autoregressive = read_network(DecoderConfig, record["autoregressive"])
        check_fit(autoregressive, verifier, kind="autoregressive drafter")
    shortlist = record.get("shortlist")
    return ModelFolder(
        path=path,
        source=check_language("source", record["source"]),
        target=check_language("target", record["target"]),
        verifier=verifier,
        drafter=drafter,
        files=check_files(record["files"]),
        calibrations=read_calibrations(calibrations_of(record)),
        autoregressive=autoregressive,
        shortlist=None if shortlist is None else ShortlistConfig(**shortlist),
        alignment=None if record.get("alignment") is None else read_heads(verifier, **record["alignment"]),
        protect=check_bool("protect", record.get("protect", True)),
        dtype=check_choice("dtype", record.get("dtype", "auto"), DTYPES),
        confidence=None if record.get("confidence") is None else read_confidence(**record["confidence"]),
        longest=None if record.get("longest") is None else check_whole("longest", record["longest"], 8, 1 << 16),
    )


def calibrations_of(record: Mapping[str, Any]) -> Any:
    """Returns the calibrations in a configuration, of which earlier ones have one alone, the masked drafter's."""
    if record.get("calibration") is not None:
        return {"masked": record["calibration"]}
    return record.get("calibrations", {})


def file_sha256(path: Path, advance: Callable[[int], object] = lambda _: None) -> str:
    """Returns the sha256 of a file's bytes in hexadecimal.

    :param advance: called with each number of bytes as it is read
    """
    digest, block = hashlib.sha256(), memoryview(bytearray(1 << 18))
    with path.open("rb", buffering=0) as stream:
        while size := stream.readinto(block):
            digest.update(block[:size])
            advance(size)
    return digest.hexdigest()


def bundled() -> Iterator[ModelFolder]:
    """Yields the models that come with the program."""
    yield from map(ModelFolder.read, folders(ASSETS))


def user_models() -> Path:
    """Returns where a user keeps models that are then known by name."""
    return platformdirs.user_data_path("specmt") / "models"


def folders(place: Path) -> list[Path]:
    """Returns the model folders in a place."""
    return [config.parent for config in sorted(place.glob(f"*/{CONFIG}"))]


def find(name: str | Path | None, *, source: str | None = None, target: str | None = None) -> ModelFolder:
    """Returns the folder of a model: a path, the name of a bundled or the user's, or the bundled one of languages.

    :param source: its source language, in any spelling: ``de``, ``DE``, ``de-AT``; ``None``: as the model has it
    :param target: likewise its target language
    :raises ModelError: there is none.
    :raises UsageError: the model that is named is for other languages, or both languages are the same.
    """
    if name is not None:
        named = (place / name for place in (ASSETS, user_models()))
        folder = ModelFolder.read(next((path for path in named if os.path.exists(path / CONFIG)), Path(name)))
        for option, code, own in (("from", source, folder.source), ("to", target, folder.target)):
            if not _means(code, own):
                pair = f"{folder.source}-{folder.target}"
                raise UsageError(f"`{option}` must be {own}, as the model is {pair}, but is {code!r} instead.")
        return folder
    check_pair(source, target)
    models = list(bundled())
    for model in models:
        if _means(source, model.source) and _means(target, model.target):
            return model
    wanted = f"{source or '…'}→{target or '…'}"
    there = ", ".join(f"{model.source}→{model.target}" for model in models) or "none"
    raise ModelError(f"No bundled model translates {wanted} (there is: {there}); name one that does.")


def pair_of(source: str | None, target: str | None) -> tuple[str, str]:
    """Returns two languages; one that is left out is what the bundled model for the other one has.

    :raises UsageError: one is left out, and there is no such model, or both are the same.
    """
    if source is not None and target is not None:
        check_pair(source, target)
        return source, target
    try:
        folder = find(None, source=source, target=target)
    except ModelError as error:
        raise UsageError(f"`from` and `to` must both be given. {error}") from error
    return folder.source, folder.target


def _means(code: str | None, language: str) -> bool:
    return code is None or find_code(code, (language,)) is not None
