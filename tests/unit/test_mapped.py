"""Packed weights of large models in the cache folder: they change speed alone, and are never believed too much."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmt.decoding.session import decode
from specmt.engine.arrays import Floats, empty
from specmt.engine.kernels import mapping as mapped
from specmt.engine.kernels.network import KernelEncoderOutput
from specmt.engine.kernels.packing import LAYOUT, Parts, pack_masked, pack_verifier
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.weights import Weight, floats
from specmt.errors import ModelError
from specmt.models import folder as folders
from specmt.models import hub
from specmt.models.config import DrafterConfig, VerifierConfig
from specmt.models.folder import AUTOREGRESSIVE, DRAFTER, VERIFIER, ModelFolder
from specmt.models.hub import Model, decoder_sizes, load_model, verifier_sizes
from specmt.models.parameters import drafter_shapes, verifier_shapes
from specmt.models.reads import count_weights
from specmt.models.tensors import read_arrays, read_tensors, write_tensors
from specmt.models.writing import add_drafter
from specmt.options import DecodingOptions
from tests.folders import trust

pytestmark = pytest.mark.usefixtures("needs_kernels")

WAYS = [{"drafter": "masked"}, {"drafter": "autoregressive"}, {"drafter": "self"}, {"beta": 3, "tolerance": 2.0}]
SOURCES = [[7, 9, 300, 8, 7], [20], [30, 31, 32], list(range(40, 75)), [5, 5]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packed weights are kept, of the smallest models, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mapped, "LEAST", 1)
    return tmp_path / "cache" / "specmt" / "packed"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the weights' files that were read whole."""
    names: list[str] = []

    def note(path: Path) -> dict[str, Weight]:
        names.append(path.name)
        return read_tensors(path)

    monkeypatch.setattr(folders, "read_tensors", note)
    return names


def load(path: Path, dtype: str) -> Model:
    """Loads a model, and its masked drafter at once."""
    model = load_model(path, device="cpu", dtype=dtype)
    assert model.network("masked") is not None
    return model


def outputs(path: Path, dtype: str = "float32") -> object:
    """Returns everything that is said, to the last bit."""
    model = load_model(path, device="cpu", dtype=dtype)
    ways = (DecodingOptions(scores=True, block_size=4, **way) for way in WAYS)  # type: ignore[arg-type]
    return [(each.tokens, each.score, each.stats.accepted) for way in ways for each in decode(model, SOURCES, way)]


def files_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_nothing_is_said_otherwise(
    folder: Path, place: Path, read: list[str], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(mapped, "LEAST", 1 << 60)
        wanted = outputs(folder, dtype)
        assert not place.exists()
    read.clear()
    assert outputs(folder, dtype) == wanted
    networks = [VERIFIER, DRAFTER, AUTOREGRESSIVE, *[VERIFIER] * (dtype == "bfloat16")]  # the last for its replica
    assert read == networks[:3]
    kept = files_in(place)
    assert len(kept) == 1 + 2 * len(networks) and "lock" in kept
    read.clear()
    times = {name: (place / name).stat().st_ctime_ns for name in kept if name.endswith(".weights")}
    assert outputs(folder, dtype) == wanted
    assert read == []
    assert {name: (place / name).stat().st_ctime_ns for name in times} == times
    assert place.stat().st_mode & 0o777 == 0o700


def test_a_drafter_with_its_verifiers_table(folder: Path, tmp_path: Path, place: Path, read: list[str]) -> None:
    model = ModelFolder.read(folder)
    assert model.drafter is not None
    weights = model.weights(DRAFTER)
    del weights["embed.weight"]
    add_drafter(folder, model, replace(model.drafter, own_table=False), weights)
    wanted = outputs(folder)
    read.clear()
    assert outputs(folder) == wanted
    assert read == []


def test_what_is_kept_costs_as_much_as_the_verifier_did_and_else_as_when_it_was_packed(
    folder: Path, place: Path
) -> None:
    first = load_model(folder, device="cpu", dtype="int8")
    assert first.network("masked") is not None
    again = load_model(folder, device="cpu", dtype="int8")
    records = {path: json.loads(path.read_text()) for path in place.glob("*.json")}
    verifier, masked = sorted(records, key=lambda path: records[path]["packed"][3])
    assert again.packing == records[verifier]["seconds"] / count_weights(again.folder, "verifier")
    assert again.price("masked") == again.loading * masked.with_suffix(".weights").stat().st_size > 0.0
    assert again.price("autoregressive") == again.packing * count_weights(again.folder, "autoregressive") > 0.0


def test_small_models_write_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    outputs(folder)
    assert not (tmp_path / "cache").exists()


def flip(path: Path) -> None:
    """Changes a bit and puts the time of change back, as far as one can."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def put_another_in_its_place(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".other"))
    flip(path.with_suffix(".other"))
    path.with_suffix(".other").rename(path)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def make_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "changed": flip,
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 100),
    "lengthened": lambda path: os.truncate(path, path.stat().st_size + 64),
    "empty": lambda path: path.write_bytes(b""),
    "another": put_another_in_its_place,
    "gone": lambda path: path.unlink(),
    "a folder": make_folder,
    "a loose end": make_link,
    "without a record": lambda path: path.with_suffix(".json").unlink(),
    "with a damaged record": lambda path: flip(path.with_suffix(".json")),
    "with no record": lambda path: path.with_suffix(".json").write_text("[1, 2"),
    "with a deep one": lambda path: path.with_suffix(".json").write_text("[" * 100_000),
    "with a list": lambda path: path.with_suffix(".json").write_text("[[]]"),
    "with bytes": lambda path: path.with_suffix(".json").write_bytes(b"\xff\x00"),
    "with a folder": lambda path: make_folder(path.with_suffix(".json")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_made_again(folder: Path, place: Path, read: list[str], damage: str) -> None:
    wanted = outputs(folder)
    for path in sorted(place.glob("*.weights")):
        DAMAGE[damage](path)
    assert outputs(folder) == wanted
    read.clear()
    assert outputs(folder) == wanted
    assert (read == []) == (not damage.endswith("a folder"))  # which nobody removes
    assert [name for name in files_in(place) if name.endswith(".tmp")] == []


def test_a_file_of_another_user_does_not_count(
    folder: Path, place: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(folder, "float32")
    for path in place.glob("*.weights"):
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(path, 12345, -1)
        record = json.loads(path.with_suffix(".json").read_text())
        record["packed"] = mapped._stamp(path.stat())
        path.with_suffix(".json").write_text(json.dumps(record))
    read.clear()
    load(folder, "float32")
    assert read == [VERIFIER, DRAFTER]


def test_changed_weights_are_noticed(folder: Path, place: Path, read: list[str]) -> None:
    wanted = outputs(folder)
    # Others that are trusted: as if a new version of the model had been fetched.
    weights = read_arrays(folder / VERIFIER)
    weights["decoder.layer_norm.weight"] *= 0.5
    write_tensors(folder / "copy", weights)
    (folder / "copy").replace(folder / VERIFIER)
    trust(folder, VERIFIER)
    changed = outputs(folder)
    assert changed != wanted
    # The same bytes, written again.
    shutil.copy(folder / VERIFIER, folder / "copy")
    (folder / "copy").replace(folder / VERIFIER)
    read.clear()
    assert outputs(folder) == changed
    assert read == [VERIFIER]
    # Damage that leaves size and date as they were.
    flip(folder / VERIFIER)
    with pytest.raises(ModelError, match="is damaged or truncated; sha256 must be"):
        outputs(folder)
    (folder / VERIFIER).unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        outputs(folder)


def test_weights_that_change_while_they_are_packed(
    folder: Path, place: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = hub.fitting_weights

    def touch(of: ModelFolder, name: str, *more: object) -> dict[str, Weight]:
        weights = fitting(of, name, *more)  # type: ignore[arg-type]
        os.utime(of.path / name)
        return weights

    wanted = outputs(folder)
    shutil.rmtree(place)
    monkeypatch.setattr(hub, "fitting_weights", touch)
    for _ in range(2):
        read.clear()
        assert outputs(folder) == wanted
        assert read.count(DRAFTER) > 0
    assert files_in(place) == ["lock"]


def test_weights_of_another_type_than_they_had(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swapped between the look at a file's head and its reading."""
    fitting = hub.fitting_weights
    wanted = outputs(folder)
    shutil.rmtree(place)
    monkeypatch.setattr(
        hub, "fitting_weights", lambda *which: {name: floats(weight) for name, weight in fitting(*which).items()}
    )
    assert outputs(folder) == wanted
    assert list(place.glob("*.weights")) == []


def test_a_full_disk_costs_speed_alone(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = outputs(folder)
    shutil.rmtree(place)

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    caplog.clear()
    assert outputs(folder) == wanted
    assert files_in(place) == ["lock"]
    (said,) = caplog.messages  # of all networks together
    assert "No space left on device): each start packs them anew" in said


def test_no_more_is_written_than_leaves_room(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    load(folder, "float32")
    assert files_in(place) == ["lock"]
    assert caplog.messages[0].startswith(f"packed weights cannot be kept in {place} (there is no room for them)")


@pytest.mark.parametrize("obstacle", ["a file", "read-only"])
def test_a_place_that_cannot_be_written(
    folder: Path,
    place: Path,
    tmp_path: Path,
    obstacle: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = outputs(folder)
    shutil.rmtree(place.parent)
    caplog.clear()
    if obstacle == "a file":
        place.parent.touch()
    else:
        place.mkdir(parents=True)

        opened = Path.open

        def open_others(path: Path, *how: Any, **more: Any) -> Any:
            if path.parent == place:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return opened(path, *how, **more)

        monkeypatch.setattr(Path, "open", open_others)
    assert outputs(folder) == wanted
    assert not place.exists() or files_in(place) == []
    assert len(caplog.messages) == 1 and str(place) in caplog.messages[0]


def test_who_packs_for_too_long_is_not_waited_for(
    folder: Path, place: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "PATIENCE", 0.1)
    place.mkdir(parents=True)
    with (place / "lock").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        load(folder, "float32")
        assert files_in(place) == ["lock"]
    assert read == [VERIFIER, DRAFTER]


def test_what_was_not_used_goes_first(
    folder: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype in ("float32", "bfloat16"):
        load(folder, dtype)
    old, new = sorted(place.glob("*.weights"), key=lambda path: -path.stat().st_size)[:2]
    sizes = sum(path.stat().st_size for path in place.glob("*.weights"))
    for path in place.glob("*.json"):
        os.utime(path, (1000.0 + (path.stem != old.stem), 1000.0 + (path.stem != old.stem)))
    load(folder, "float32")  # uses the one that is oldest
    os.utime(new.with_suffix(".json"), (1.0, 1.0))
    monkeypatch.setattr(mapped, "MOST", sizes)
    load(folder, "int8")
    assert old.exists() and not new.exists() and not new.with_suffix(".json").exists()
    assert sum(path.stat().st_size for path in place.glob("*.weights")) <= sizes
    monkeypatch.setattr(mapped, "MOST", 10_000)
    shutil.copytree(folder, tmp_path / "second")
    shutil.rmtree(folder)
    load_model(tmp_path / "second", device="cpu", dtype="float32")
    assert list(place.glob("*.weights")) == []  # no model, too large


SCRIPT = """
import sys
import zlib
from pathlib import Path
from specmt.engine.kernels import mapping as mapped
from specmt.models import folder
from specmt.models.hub import load_model
mapped.LEAST = 1
read, tensors = [], folder.read_tensors
def note(path, **more):
    read.append(path.name)
    return tensors(path, **more)
folder.read_tensors = note
print("ready", flush=True)
sys.stdin.readline()
model = load_model(Path(sys.argv[1]), device="cpu", dtype="float32", threads=1)
assert model.network("masked") is not None
print(len(read), zlib.crc32(model.verifier.encode([[7, 9, 300, 8, 7]]).states.tobytes()), flush=True)
"""


def test_several_processes_at_once(folder: Path, place: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [process.communicate()[0].split() for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert sum(int(count) for count, _ in found) == 2  # verifier and drafter, once
    assert len({states for _, states in found}) == 1
    assert len(list(place.glob("*.weights"))) == 2


def checksum(parts: Parts) -> int:
    total = 0
    for part in parts:
        array = empty(part.shape, part.dtype)
        part.fill(array)
        if part.name != "filter.bounds":  # norms are rounded
            total = zlib.crc32(array.tobytes(), zlib.crc32(part.name.encode(), total))
    return total


def test_a_new_layout_has_a_new_number() -> None:
    """Else files that an earlier version kept would be read as what they are not."""
    verifier = VerifierConfig(
        model_dim=64, num_heads=4, ffn_dim=96, encoder_layers=1, decoder_layers=2, vocab_size=83, max_length=64
    )
    drafter = DrafterConfig(model_dim=64, num_heads=4, ffn_dim=96, layers=1, vocab_size=83, max_length=64)

    def weights(shapes: dict[str, tuple[int, ...]]) -> dict[str, Floats]:
        # Sums of their products have no rounding.
        return {
            name: ((np.arange(prod(shape), dtype=np.float32) * 7 + len(name)) % 31 / 16 - 1).reshape(shape)
            for name, shape in shapes.items()
        }

    wanted = [(3606567998, 2037670960), (2134437383, 2904143204), (2524242021, 1769621744)]
    found = []
    for format in ("float32", "bfloat16", "int8"):
        packed = pack_verifier(weights(verifier_shapes(verifier)), verifier_sizes(verifier), format)
        drafts = pack_masked(weights(drafter_shapes(drafter)), decoder_sizes(drafter), format)
        found.append((checksum(packed), checksum(drafts)))
    assert (LAYOUT, found) == (3, wanted)


def test_a_verifier_stays_when_its_file_goes(folder: Path, place: Path) -> None:
    load(folder, "float32")
    verifier = load(folder, "float32").verifier
    assert isinstance(verifier, KernelVerifier)
    before = verifier.encode(SOURCES)
    shutil.rmtree(place)
    after = verifier.encode(SOURCES)
    assert isinstance(before, KernelEncoderOutput) and isinstance(after, KernelEncoderOutput)
    assert np.array_equal(before.states, after.states)
