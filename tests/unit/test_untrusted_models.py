"""Damaged model folders, and those that a stranger made: refused in one line, at once, and nothing else is touched."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specmt.cli.main import run
from specmt.errors import ModelError
from specmt.models.describe import count_parameters, find_licence
from specmt.models.folder import (
    AUTOREGRESSIVE,
    CARD,
    CONFIG,
    DRAFTER,
    PIECES,
    VERIFIER,
    ModelFolder,
    file_sha256,
    find,
)
from specmt.models.hub import load_model
from specmt.models.tensors import SCALE
from specmt.models.writing import add_drafter
from specmt.text.printable import printable
from tests.folders import Change, change_config, trust

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"
"""Sets a terminal's title, clears it and turns it red."""


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """Ends what waits for a FIFO or counts to a billion."""

    def stop(*_: object) -> None:
        raise TimeoutError("it took ten seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(ModelError) as raised:
        call()
    assert raised.value.exit_code == 69
    return str(raised.value)


def load_all(folder: Path) -> None:
    model = load_model(folder, device="cpu")
    _ = model.network("masked"), model.network("autoregressive")


def shown(capfd: pytest.CaptureFixture[str], *arguments: str | Path, code: int) -> str:
    """Returns what a command writes, after checking that a terminal may have it."""
    assert run([str(argument) for argument in arguments]) == code
    out, err = capfd.readouterr()
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err) is None
    assert "Traceback" not in err
    return out + err


# Damage

FILES = (PIECES, VERIFIER, DRAFTER, AUTOREGRESSIVE)


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_what_they_were(folder: Path, name: str) -> None:
    path = folder / name
    data = path.read_bytes()
    middle = len(data) // 2
    for changed in (data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], data[:-100]):
        path.write_bytes(changed)
        message = error_of(lambda: load_all(folder))
        assert message.startswith(f"{path}: is damaged or truncated; sha256 must be {file_hash(folder, name)}, but is ")
    path.unlink()
    assert f"{path}: cannot be read (No such file or directory)" in error_of(lambda: load_all(folder))
    change_config(folder, lambda record: record["files"].pop(name))
    assert f"the model has no {name}" in error_of(lambda: load_all(folder))


def file_hash(folder: Path, name: str) -> str:
    return ModelFolder.read(folder).files[name]


@pytest.mark.parametrize("name", [VERIFIER, DRAFTER, AUTOREGRESSIVE])
@pytest.mark.parametrize("size", [0, 7, 100, -100])
def test_truncated_weights_with_a_fitting_hash(folder: Path, name: str, size: int) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes()[:size])
    trust(folder, name)
    assert f"{path}: is not a safetensors file" in error_of(lambda: load_all(folder))


def test_pieces_that_are_none(folder: Path) -> None:
    (folder / PIECES).write_bytes(b"\x80 no model")
    trust(folder, PIECES)
    message = error_of(lambda: load_all(folder))
    assert f"{folder / PIECES}: cannot be read as a SentencePiece model" in message and "\n" not in message


class Canary:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("name", [*FILES, CONFIG])
def test_nothing_is_ever_unpickled(folder: Path, tmp_path: Path, name: str) -> None:
    sung = tmp_path / "sung"
    song = pickle.dumps(Canary(sung))
    pickle.loads(song)
    assert sung.exists()  # the canary can sing
    sung.unlink()
    archive = io.BytesIO()
    torch.save({"weights": Canary(sung)}, archive)
    for content in (archive.getvalue(), song, struct.pack("<Q", len(song)) + song):
        (folder / name).write_bytes(content)
        if name != CONFIG:
            trust(folder, name)
        assert str(folder / name) in error_of(lambda: load_all(folder))
        assert not sung.exists()


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("verifier", {"encoder_layers": 3}),
        ("verifier", {"encoder_layers": 1}),
        ("verifier", {"decoder_layers": 3}),
        ("verifier", {"decoder_layers": 1}),
        ("verifier", {"model_dim": 64}),
        ("verifier", {"ffn_dim": 128}),
        ("verifier", {"vocab_size": 500}),
        ("verifier", {"num_heads": 5}),
        ("drafter", {"layers": 2}),
        ("drafter", {"model_dim": 64}),
        ("drafter", {"vocab_size": 500}),
        ("drafter", {"correction_rank": 32}),
        ("autoregressive", {"layers": 2}),
        ("autoregressive", {"ffn_dim": 128}),
    ],
)
def test_weights_that_do_not_fit_the_configuration(folder: Path, part: str, changes: dict[str, int]) -> None:
    change_config(folder, lambda record: record[part].update(changes))
    assert str(folder) in error_of(lambda: load_all(folder))


@pytest.mark.parametrize(("part", "called"), [("drafter", "drafter"), ("autoregressive", "autoregressive drafter")])
@pytest.mark.parametrize("name", ["model_dim", "num_heads", "vocab_size", "max_length"])
def test_a_drafter_for_another_verifier(folder: Path, part: str, called: str, name: str) -> None:
    change_config(folder, lambda record: record[part].update({name: record["verifier"][name] * 2}))
    message = error_of(lambda: ModelFolder.read(folder))
    assert f"{folder / CONFIG}: " in message and f"The {called}'s `{name}` must be the verifier's, " in message


def test_a_place_without_a_model(tmp_path: Path, folder: Path) -> None:
    for path in (tmp_path, tmp_path / "none", folder / CONFIG, tmp_path / "nul\0"):
        assert f"{path}: is no model folder" in error_of(lambda path=path: ModelFolder.read(path))
    assert "is no model folder" in error_of(lambda: find("x" * 5000, source="de", target="en"))
    assert "No bundled model translates xx→yy" in error_of(lambda: find(None, source="xx", target="yy"))


# The names of files


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../outside",
        "../../.bashrc",
        "/etc/passwd",
        "sub/file",
        "back\\slash",
        "nul\0",
        "line\nfeed",
        f"escape{ESCAPE}",
        "right\u202eleft",
        "x" * 256,
    ],
)
def test_files_are_named_by_bare_names(folder: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    change_config(folder, lambda record: record["files"].update({name: "0" * 64}))
    message = error_of(lambda: ModelFolder.read(folder))
    assert "`files` must name files in the folder, without a path, but names " in message
    assert shown(capfd, "models", "verify", folder, code=69) == f"specmt: error: {message}\n"


def test_nothing_outside_of_a_folder_is_read_or_written(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    change_config(folder, lambda record: record["files"].update({"../secret": file_sha256(secret)}))

    def copy() -> None:
        model = ModelFolder.read(folder)
        assert model.autoregressive is not None
        add_drafter(tmp_path / "x" / "copy", model, model.autoregressive, model.weights(AUTOREGRESSIVE))

    error_of(copy)
    assert not (tmp_path / "x").exists()


# What a configuration says


def put(*keys: str, value: object) -> Change:
    def change(record: dict[str, Any]) -> None:
        for key in keys[:-1]:
            record = record[key]
        record[keys[-1]] = value

    return change


BILLION = 10**9
SIZES = {
    "verifier": (
        "model_dim",
        "num_heads",
        "ffn_dim",
        "encoder_layers",
        "decoder_layers",
        "vocab_size",
        "source_vocab_size",
        "max_length",
        "first_position",
    ),
    "drafter": ("layers", "block_size", "correction_rank", "ffn_dim", "first_position"),
    "autoregressive": ("layers", "ffn_dim"),
}


@pytest.mark.parametrize(("part", "name"), [(part, name) for part, names in SIZES.items() for name in names])
@pytest.mark.parametrize("value", [BILLION, -1, 1.5, True, "8", [8], 10**4000])
def test_every_size_has_a_limit(folder: Path, part: str, name: str, value: object) -> None:
    change_config(folder, put(part, name, value=value))
    message = error_of(lambda: ModelFolder.read(folder))
    assert re.search(rf"`{name}` must be a whole number from \d+ to [\d,]+, but is .* instead", message)
    assert len(message) < 400


CONFIDENCE = {"threshold": 60, "weights": [1.0] * 6, "scores": [-1.0, 1], "chances": [0, 1.0]}
CALIBRATION = {"acceptance": [0.5], "scale": 1.0, "shift": 0.0}
SHORTLIST = {"frequent": 1, "associated": 1, "sentences": 1, "recall": 0.5, "whole": 0.5, "allowed": 9.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict.clear, "is not a model configuration of this version ('verifier')"),
        *((lambda record, name=name: record.pop(name), f"({name!r})") for name in ("verifier", "drafter", "files")),
        (put("verifier", value=None), "must be a mapping, not NoneType"),
        (put("drafter", value="masked"), "must be a mapping, not str"),
        (put("autoregressive", value="small"), "must be a mapping, not str"),
        (put("verifier", "colour", value="blue"), "unexpected keyword argument 'colour'"),
        (put("autoregressive", "block_size", value=4), "unexpected keyword argument 'block_size'"),
        (put("format", value=3), "was made by a newer specmt, as format 3"),
        (put("format", value=10**30), "was made by a newer specmt"),
        (put("format", value=0), "`format` must be a number from 1 to 2, but is 0 instead"),
        (put("format", value="1"), "`format` must be a number from 1 to 2, but is '1' instead"),
        (put("source", value=["de"]), "`source` must name a language"),
        (put("target", value=ESCAPE), r"`target` must name a language, but is '\x1b]0;owned"),
        (put("protect", value="no"), "`protect` must be true or false, but is 'no' instead"),
        (put("dtype", value="int3"), "bfloat16, float16, int8, but is 'int3' instead"),
        (put("dtype", value=["int8"]), "`dtype` must be one of auto, float32"),
        (put("dtype", value=None), "`dtype` must be one of auto, float32"),
        (put("files", value=[]), "`files` must be an object"),
        (put("files", VERIFIER, value=None), f"sha256 of {VERIFIER} must be 64 hexadecimal digits, but is None"),
        (put("files", VERIFIER, value="0" * 63), "must be 64 hexadecimal digits"),
        (put("files", VERIFIER, value=7), "must be 64 hexadecimal digits"),
        (put("verifier", "source_prefix", value=[1] * 500), "`source_prefix` must have fewer than"),
        (put("verifier", "target_prefix", value=[BILLION]), "`target_prefix` must be a list of ids"),
        (put("verifier", "target_prefix", value=[[]]), "`target_prefix` must be a list of ids"),
        (put("verifier", "dropout", value=float("nan")), "`dropout` must be at least 0 and less than 1"),
        (put("verifier", ESCAPE, value=1), r"\x1b]0;owned\x07"),
        (put("verifier", "activation", value=ESCAPE), r"but is '\x1b]0;owned"),
        (put("calibration", value={}), "is not a model configuration"),
        (put("calibration", value=[1]), "is not a model configuration"),
        (put("confidence", value={**CONFIDENCE, "weights": [1]}), "`weights` must be 6 numbers, but is 1 instead"),
        (put("confidence", value={**CONFIDENCE, "chances": [0.5]}), "`chances` must be 2 numbers, but is 1 instead"),
        (put("confidence", value={**CONFIDENCE, "chances": [0.5, 0.25]}), "`chances` must be in ascending order"),
        (put("confidence", value={**CONFIDENCE, "scores": "12"}), "`scores` must be a list of numbers, but is '12'"),
        (put("calibrations", value=[1]), "`calibrations` must be of masked, autoregressive, but is"),
        (put("calibrations", value={"self": CALIBRATION}), "`calibrations` must be of masked, autoregressive, but is"),
        (put("calibrations", value={"masked": {**CALIBRATION, "scale": "1"}}), "`scale` must be a number"),
        (
            put("calibration", value={**CALIBRATION, "acceptance": []}),
            "`acceptance` must be a list of 1 to 1000",
        ),
        (put("calibration", value={**CALIBRATION, "acceptance": [1.5]}), "`acceptance` must be a number from 0 to 1"),
        (put("calibration", value={**CALIBRATION, "acceptance": [0.5] * 1001}), "`acceptance` must be a list"),
        (put("calibration", value={**CALIBRATION, "scale": None}), "`scale` must be a number"),
        (put("calibration", value={**CALIBRATION, "scale": 10**400}), "`scale` must be a number"),
        (put("calibration", value={**CALIBRATION, "shift": float("inf")}), "`shift` must be a number"),
        (put("shortlist", value={**SHORTLIST, "frequent": "many"}), "`frequent` must be a whole number"),
        (put("shortlist", value={**SHORTLIST, "recall": float("nan")}), "`recall` must be a number"),
    ],
)
def test_what_a_configuration_must_not_say(
    folder: Path, change: Change, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    change_config(folder, change)
    said = error_of(lambda: ModelFolder.read(folder))
    assert said.startswith(f"{folder / CONFIG}: ") and message in said
    for command in ("show", "verify"):
        assert shown(capfd, "models", command, folder, code=69) == f"specmt: error: {said}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "is not valid JSON") for text in ("", "{", "\udcff\udcfe", '{"format": 1', "none")),
        *((text, "must hold an object") for text in ("[]", "1", "null", '"text"')),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"format": ' + "9" * 10_000 + "}", "is not valid JSON"),
        ('{"a": "' + "x" * 2_000_000 + '"}', "must have at most 1,048,576 bytes"),
        (f'{{"{ESCAPE}', "is not valid JSON"),
    ],
)
def test_json_that_is_made_to_break_readers(
    folder: Path, text: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / CONFIG).write_text(text, encoding="utf-8", errors="surrogateescape")
    assert message in shown(capfd, "models", "verify", folder, code=69)


def test_lists_of_pieces_that_are_nested_too_deeply(folder: Path) -> None:
    for name in ("source.spm", "vocabulary.json"):
        shutil.copy(folder / PIECES, folder / name)
        trust(folder, name)
    (folder / "vocabulary.json").write_text("[" * 100_000, encoding="utf-8")
    trust(folder, "vocabulary.json")
    assert "cannot be read as lists of pieces" in error_of(lambda: load_model(folder, device="cpu"))


# Weights


@pytest.mark.crossed("name", "dtype", "value")
@pytest.mark.parametrize("name", [VERIFIER, DRAFTER, AUTOREGRESSIVE])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), -float("nan"), float("inf"), -float("inf")])
def test_weights_are_finite(folder: Path, name: str, dtype: torch.dtype, value: float) -> None:
    weights = {key: tensor.to(dtype) for key, tensor in load_file(folder / name).items()}
    key = next(key for key, tensor in weights.items() if tensor.ndim == 2)
    weights[key][-1, 3] = torch.finfo(dtype).min
    save_file(weights, folder / name)
    trust(folder, name)
    ModelFolder.read(folder).weights(name)
    weights[key][-1, 3] = value
    save_file(weights, folder / name)
    trust(folder, name)
    assert error_of(lambda: load_all(folder)) == (
        f"{folder / name}: {key} must be finite, but has NaN or infinite values."
    )


def test_weights_are_of_floating_point(folder: Path) -> None:
    save_file({key: tensor.to(torch.int64) for key, tensor in load_file(folder / VERIFIER).items()}, folder / VERIFIER)
    trust(folder, VERIFIER)
    assert "must be of floating point, but is int64 instead" in error_of(lambda: load_all(folder))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (None, "must have a scale for each row, in float32"),
        (torch.ones(3), "must have a scale for each row, in float32"),
        (torch.ones(64, dtype=torch.float16), "must have a scale for each row, in float32"),
        (torch.full((64,), torch.nan), "must be finite, but has NaN or infinite values"),
        (torch.full((64,), 1e38), "must be finite, but has NaN or infinite values"),
    ],
)
def test_int8_needs_scales(folder: Path, scale: torch.Tensor | None, message: str) -> None:
    weights = load_file(folder / VERIFIER)
    key = "encoder.layers.0.ffn.inner_proj.weight"
    weights[key] = torch.full(weights[key].shape, 127, dtype=torch.int8)
    if scale is not None:
        weights[key + SCALE] = scale
    save_file(weights, folder / VERIFIER)
    trust(folder, VERIFIER)
    assert message in error_of(lambda: load_all(folder))


def header(content: object, data: bytes = b"") -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text + data


TENSOR = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "content",
    [
        header([]),
        header({"a": None}),
        header({"a": {}}, b"1234"),
        header({"a": {**TENSOR, "shape": [1.5]}}, b"1234"),
        header(b"[" * 100_000),
        header(b'{"a":' * 50_000),
        header(f'{{"{ESCAPE}'.encode()),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 100) + b"{}",
    ],
)
def test_damaged_headers_of_weights(folder: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """More of what headers must not say is among the tests of our own reader."""
    path = folder / VERIFIER
    path.write_bytes(content)
    trust(folder, VERIFIER)
    start = f"{path}: is not a safetensors file ("
    assert error_of(lambda: count_parameters(path)).startswith(start)
    assert error_of(lambda: load_all(folder)).startswith(start)
    assert start in shown(capfd, "models", "show", folder, code=69)


# What is no file


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_fifo, make_device, Path.mkdir])
@pytest.mark.parametrize("name", [CONFIG, PIECES, VERIFIER, DRAFTER, AUTOREGRESSIVE, CARD])
def test_only_regular_files_are_read(
    folder: Path, name: str, make: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    message = f"{folder / name}: must be a regular file, but is a "
    if name == CARD:
        assert message in shown(capfd, "models", "show", folder, code=69)
        return
    assert error_of(lambda: load_all(folder)).startswith(message)
    for command in ("show", "verify"):
        assert message in shown(capfd, "models", command, folder, code=69)


@pytest.mark.parametrize("kind", ["marian", "nllb"])
@pytest.mark.parametrize("name", [CONFIG, "model.safetensors", "pytorch_model.bin", "model.npz", "checkpoint.pt"])
def test_only_regular_files_are_imported(
    tmp_path: Path, kind: str, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model"
    path.mkdir()
    os.mkfifo(path / name)
    for source in (path, path / name):
        shown(capfd, "import", kind, source, tmp_path / "out", "--from", "de", "--to", "en", code=69)
    assert not (tmp_path / "out").exists()


# What reaches the terminal


def test_control_characters_are_shown_as_such(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    odd = tmp_path / "data" / "specmt" / "models" / f"odd{ESCAPE}"
    shutil.copytree(folder, odd)
    (odd / CARD).write_text(
        f"# {ESCAPE}\n\n**Licence:** {ESCAPE}\n\n## Scores\n\n| {ESCAPE} |\n|-|\n| {ESCAPE} |\n\udcff",
        encoding="utf-8",
        errors="surrogateescape",
    )
    said = r"\x1b]0;owned\x07\x1b[2J\x9b31m"
    assert f"# {said}" in shown(capfd, "models", "show", odd, "--card", code=0)
    for arguments in (["list"], ["show", odd], ["verify"]):
        assert said[:10] in shown(capfd, "models", *arguments, code=0)
    assert json.loads(shown(capfd, "models", "show", odd, "--json", code=0))["path"] == str(odd)
    shutil.rmtree(odd / CARD, ignore_errors=True)
    (odd / VERIFIER).write_bytes(b"")
    assert said in shown(capfd, "models", "list", code=0)
    assert said in shown(capfd, "models", "verify", odd, code=69)
    assert said in shown(capfd, "models", "show", odd, code=69)


def test_printable_text() -> None:
    assert printable("a\x00\x1b[0m\x7f\x9b\udcff\n") == r"a\x00\x1b[0m\x7f\x9b\xff\x0a"
    assert printable("a\tb\n\r", lines=True) == "a\tb\n\\x0d"
    assert printable("Grüße, 漢字 🙂\u2028") == "Grüße, 漢字 🙂\u2028"


def test_a_card_that_is_made_to_break_readers() -> None:
    assert find_licence("**Licence:** x" + " " * 200_000 + "y\n") == "x y"
    assert find_licence("**Licence:**" + "\n" * 200_000) is None


# Placeholders


def test_placeholders_are_protected_unless_a_configuration_says_otherwise(folder: Path) -> None:
    assert ModelFolder.read(folder).protect
    change_config(folder, lambda record: record.pop("protect"))
    assert ModelFolder.read(folder).protect  # as in folders of before there was the field
    change_config(folder, put("protect", value=False))
    model = ModelFolder.read(folder)
    assert not model.protect and model.autoregressive is not None
    assert not add_drafter(folder, model, model.autoregressive, model.weights(AUTOREGRESSIVE)).protect
