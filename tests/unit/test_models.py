"""Model folders, what may be wrong with them, and the fairseq2 families."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specmt.decoding.session import decode
from specmt.engine.backends import choose_device, choose_format
from specmt.engine.kernels.decoder import KernelDecoder
from specmt.engine.threads import count_fast
from specmt.engine.torch.decoder import TorchDecoder
from specmt.engine.torch.verifier import TorchVerifier
from specmt.engine.weights import Weights, floats
from specmt.engine.window import Window
from specmt.errors import ModelError, OutputError, UsageError
from specmt.models import writing
from specmt.models.config import ARCHS, DecoderConfig, DrafterConfig, VerifierConfig, verifier_config
from specmt.models.folder import (
    AUTOREGRESSIVE,
    CONFIG,
    DRAFTER,
    PIECES,
    VERIFIER,
    ModelFolder,
    find,
    pair_of,
    place_beside,
)
from specmt.models.hub import Model, load_model
from specmt.models.reference.modules import create_verifier, tie_weights
from specmt.models.tensors import write_tensors
from specmt.models.writing import add_drafter, add_lexicon, store_in_int8, write_calibration
from specmt.options import Calibration, DecodingOptions
from specmt.text.lexicon import LEXICON, Lexicon
from specmt.training.drafter import BlockOptions, lay_blocks
from specmt.translator import Translator
from specmt.types import BOS, EOS
from tests.conftest import AHEAD, MASKED
from tests.conftest import VERIFIER as VERIFIER_CONFIG
from tests.folders import change_config, trust, write_model
from tests.networks import (
    autoregressive_network,
    drafter_network,
    held,
    logits_of,
    module_logits,
    opened,
    scores,
    zeros,
)

from fairseq2.nn import BatchLayout  # isort: skip  (specmt.models.reference makes it importable)


pytestmark = pytest.mark.filterwarnings("ignore:.*hg_exporter.*:DeprecationWarning")  # fairseq2 about itself


def test_a_folder_gives_back_what_was_written(tiny_model: Path, pieces_path: Path, tmp_path: Path) -> None:
    read = ModelFolder.read(tiny_model)
    assert (read.source, read.target) == ("de", "en")
    assert (read.verifier, read.drafter) == (VERIFIER_CONFIG, MASKED)
    assert read.autoregressive == AHEAD
    assert set(read.files) == {PIECES, VERIFIER, DRAFTER, AUTOREGRESSIVE}
    assert {path.name for path in tiny_model.iterdir()} == {CONFIG, *read.files}
    assert read.verified(PIECES).read_bytes() == pieces_path.read_bytes()
    weights = {name: read.weights(name) for name in (VERIFIER, DRAFTER, AUTOREGRESSIVE)}
    for weight in (weight for named in weights.values() for weight in named.values()):
        assert isinstance(weight, np.ndarray) and weight.dtype == np.float16
    again = write_model(tmp_path / "again", pieces_path, VERIFIER_CONFIG, weights[VERIFIER])
    assert (again.drafter, again.autoregressive) == (None, None)
    again = add_drafter(tmp_path / "again", again, MASKED, weights[DRAFTER])
    again = add_drafter(tmp_path / "again", again, AHEAD, weights[AUTOREGRESSIVE])
    assert again == replace(read, path=tmp_path / "again")
    assert again.sha256 == read.sha256


@contextmanager
def at_every_step(folder: Path, do: Callable[[], object]) -> Iterator[None]:
    """In this block something is done before every operation on files of a folder."""
    is_done = False

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def done_before(*given: Any, **more: Any) -> Any:
            nonlocal is_done
            if not is_done and str(folder) in str(given):
                is_done = True
                do()
                is_done = False
            return call(*given, **more)

        return done_before

    with pytest.MonkeyPatch.context() as patch:
        for name in ("chmod", "mkdir", "open", "rename", "replace", "rmdir", "scandir", "stat", "unlink"):
            patch.setattr(os, name, watched(getattr(os, name)))
        patch.setattr(io, "open", watched(io.open))
        yield


def model_of(folder: Path) -> frozenset[tuple[str, str]]:
    """Returns the files of a model that is there whole, and their hashes."""
    model = ModelFolder.read(folder)
    for name in model.files:
        model.verified(name)
    return frozenset(model.files.items())


@pytest.mark.parametrize("how", ["anew", "with a drafter", "in int8"])
def test_a_model_stays_whole_where_another_cannot_be_written_in_its_place(
    folder: Path, tiny_model: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelFolder.read(tiny_model)
    assert model.drafter is not None
    change_config(folder, lambda record: record.update(source="da"))
    change_byte(folder / PIECES)
    trust(folder, PIECES)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(path: Path, _: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    def write() -> object:
        if how == "anew":
            return write_model(folder, tiny_model / PIECES, model.verifier, weights)
        if how == "in int8":
            return store_in_int8(folder, model)
        return add_drafter(folder, model, drafter, drafter_weights)

    weights, drafter, drafter_weights = model.weights(VERIFIER), model.drafter, model.weights(DRAFTER)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("specmt.models.writing.write_tensors", fail)
        write()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    seen = [model_of(folder)]
    with at_every_step(folder, lambda: seen.append(model_of(folder))):
        write()
    seen.append(model_of(folder))
    assert len(seen) > 20 and [*dict.fromkeys(seen)] == [seen[0], seen[-1]] and seen[0] != seen[-1]
    assert {path.name for path in folder.iterdir()} == before.keys()
    assert ModelFolder.read(folder).verified(PIECES).read_bytes() == (tiny_model / PIECES).read_bytes()


def test_two_who_write_a_model_wait_for_each_other(
    folder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelFolder.read(tiny_model)
    assert model.drafter is not None
    began, may_end = threading.Event(), threading.Event()

    def write_slowly(path: Path, weights: Weights) -> None:
        began.set()
        may_end.wait(10)
        write_tensors(path, weights)

    monkeypatch.setattr(writing, "write_tensors", write_slowly)
    weights = {name: floats(weight) + 1 for name, weight in model.weights(DRAFTER).items()}
    with ThreadPoolExecutor(2) as pool:  # a lock keeps those of other processes away no less
        one = pool.submit(add_drafter, folder, ModelFolder.read(folder), replace(model.drafter, block_size=9), weights)
        began.wait(10)
        with monkeypatch.context() as patch, pytest.raises(OutputError, match="another process is writing this model"):
            patch.setattr(writing, "PATIENCE", 0.0)
            write_calibration(folder, "autoregressive", CALIBRATION)
        other = pool.submit(add_lexicon, folder, Lexicon(frozenset("a")))
        assert not wait([other], 0.3).done
        may_end.set()
        assert one.result().drafter is not None and other.result() is None
    found = ModelFolder.read(folder)
    assert found.drafter is not None and (found.drafter.block_size, found.calibrations) == (9, {})
    assert {LEXICON, DRAFTER} <= dict(model_of(folder)).keys() == {path.name for path in folder.iterdir()} - {CONFIG}


def test_what_a_killed_writer_left_is_used_or_removed(folder: Path, tiny_model: Path) -> None:
    files = ModelFolder.read(folder).files
    (folder / VERIFIER).rename(place_beside(folder / VERIFIER, files[VERIFIER]))  # killed after all was written
    place_beside(folder / PIECES, "0" * 64).write_bytes(b"killed before")
    assert model_of(folder) == frozenset(files.items())
    load_model(folder, dtype="float32", threads=1)
    add_lexicon(folder, Lexicon(frozenset("a")))
    assert {path.name for path in folder.iterdir()} == {CONFIG, LEXICON, *files}
    assert model_of(folder) >= frozenset(files.items())


def test_whoever_reads_while_a_model_is_replaced_has_the_one_or_the_other(folder: Path, tiny_model: Path) -> None:
    model = ModelFolder.read(tiny_model)
    weights, said = model.weights(VERIFIER), set()
    other = {name: floats(weight) * 1.5 for name, weight in weights.items()}

    def write(which: Weights) -> None:
        write_model(folder, tiny_model / PIECES, model.verifier, which)

    def load() -> tuple[str, bytes]:
        loaded = load_model(folder, dtype="float32", threads=1)
        return loaded.sha256, logits_of(loaded.verifier, [[9, 80, 300]], np.array([[BOS]])).tobytes()

    write(weights)
    one = load()
    write(other)
    wanted = {one, load()}
    assert len(wanted) == 2

    def load_and_write(at: int) -> bool:
        """Returns whether there were so many operations."""
        steps = count()
        with at_every_step(folder, lambda: next(steps) == at and write(other)):
            said.add(load())
        return next(steps) > at

    for step in count():
        write(weights)
        if not load_and_write(step):
            break
    assert step > 10 and said == wanted


def change_byte(path: Path) -> bytes:
    """Turns over a bit in the middle of a file; returns the old bytes."""
    old = path.read_bytes()
    new = bytearray(old)
    new[len(new) // 2] ^= 1
    path.write_bytes(new)
    return old


def test_a_loaded_model_tells_about_itself(model: Model, tiny_model: Path, tiny_model_without_drafter: Path) -> None:
    assert (model.path, model.device, model.dtype) == (tiny_model, "cpu", "float32")
    assert (model.drafters, model.block_size, model.max_source_length) == (("masked", "autoregressive"), 4, 64)
    bare = load_model(tiny_model_without_drafter, device="cpu", dtype="bfloat16")
    assert (bare.block_size, bare.dtype) == (None, "bfloat16")
    assert bare.drafters == (("self",) if bare.backend.name == "kernels" else ())  # by a replica in int8


def test_the_number_format_is_the_one_asked_for_or_the_models_or_the_fastest(folder: Path, kernels: bool) -> None:
    fastest = "int8" if kernels else choose_format("auto", "cpu")
    for said in ("auto", "bfloat16"):
        record = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        (folder / CONFIG).write_text(json.dumps(record | {"dtype": said}), encoding="utf-8")
        for asked, wanted in (("auto", fastest if said == "auto" else said), ("float32", "float32")):
            assert load_model(folder, device="cpu", dtype=asked, kernels=kernels).dtype == wanted
    model = ModelFolder.read(folder)
    assert model.autoregressive is not None
    assert add_drafter(folder, model, model.autoregressive, model.weights(AUTOREGRESSIVE)).dtype == "bfloat16"


CALIBRATION = Calibration(acceptance=(0.5, 0.25), scale=1.0, shift=0.0)


def test_a_drafter_takes_its_place_beside_the_other(
    folder: Path, tiny_model_without_drafter: Path, tmp_path: Path
) -> None:
    for name in ("masked", "autoregressive"):
        write_calibration(folder, name, CALIBRATION)
    both = ModelFolder.read(folder)
    bare = ModelFolder.read(tiny_model_without_drafter)
    assert both.drafter is not None and both.autoregressive is not None
    one = add_drafter(tmp_path / "one", bare, both.autoregressive, both.weights(AUTOREGRESSIVE))
    assert (one.drafter, one.autoregressive) == (None, both.autoregressive)
    two = add_drafter(tmp_path / "two", one, both.drafter, both.weights(DRAFTER))
    assert two == replace(both, path=two.path, calibrations={})
    # Another of a kind replaces the first; a calibration stays with the drafter that it is of.
    masked = replace(both.drafter, block_size=9)
    assert add_drafter(tmp_path / "three", both, masked, both.weights(DRAFTER)).calibrations == {
        "autoregressive": CALIBRATION
    }
    shifted = {name: floats(weight) + 1 for name, weight in both.weights(AUTOREGRESSIVE).items()}
    other = add_drafter(folder, both, both.autoregressive, shifted)  # in its own folder
    assert other.calibrations == {"masked": CALIBRATION}
    assert {name for name in both.files if both.files[name] != other.files[name]} == {AUTOREGRESSIVE}
    assert set(load_model(folder, device="cpu").folder.weights(AUTOREGRESSIVE)) == set(shifted)


def test_a_damaged_model_is_not_copied(folder: Path, tmp_path: Path) -> None:
    model = ModelFolder.read(folder)
    assert model.autoregressive is not None
    weights = model.weights(AUTOREGRESSIVE)
    change_byte(folder / VERIFIER)
    with pytest.raises(ModelError, match="sha256"):
        add_drafter(tmp_path / "copy", model, model.autoregressive, weights)
    assert not (tmp_path / "copy" / CONFIG).exists()


def test_an_autoregressive_drafter_is_loaded_when_it_is_wanted(folder: Path, sources: list[list[int]]) -> None:
    (folder / AUTOREGRESSIVE).unlink()
    model = load_model(folder, device="cpu")
    decode(model, sources[:2], DecodingOptions(drafter="masked"))
    with pytest.raises(ModelError, match=f"{AUTOREGRESSIVE}: cannot be read"):
        _ = model.network("autoregressive")


def test_the_autoregressive_drafter_is_in_the_format_to_draft_in(model: Model) -> None:
    drafter = model.network("autoregressive")
    assert drafter is not None and drafter is model.network("autoregressive")
    if model.backend.name == "kernels":
        assert isinstance(drafter, KernelDecoder)
        assert drafter.format == "int8"
    else:
        assert isinstance(drafter, TorchDecoder) and isinstance(model.verifier, TorchVerifier)
        assert (drafter.dtype, drafter.shapes) == (model.verifier.dtype, model.verifier.shapes)


def test_a_replica_is_the_verifier_where_nothing_is_cheaper(model: Model) -> None:
    assert "self" not in model.drafters and model.replica is model.verifier


def test_bundled_models_are_found_by_name_and_direction(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specmt.models.folder.ASSETS", tmp_path)
    shutil.copytree(tiny_model, tmp_path / "toy-de-en")
    for name in (None, "toy-de-en", tmp_path / "toy-de-en"):
        assert find(name, source="de", target="en").path == tmp_path / "toy-de-en"
    from specmt.models.reference.families import asset_cards

    cards = {card["name"]: card for card in asset_cards()}
    assert set(cards) == {"specmt-de-en", "specmt-de-en-drafter", "specmt-de-en-autoregressive"}
    assert cards["specmt-de-en"]["checkpoint"] == (tmp_path / "toy-de-en" / VERIFIER).as_uri()


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        (None, None, "de-en"),
        ("DE", None, "de-en"),
        ("de-AT", "EN_us", "de-en"),
        ("en", None, "en-de"),
        (None, "de_DE", "en-de"),
        (None, " EN ", "de-en"),
    ],
)
def test_languages_are_found_in_any_spelling(source: str | None, target: str | None, found: str) -> None:
    assert find(None, source=source, target=target).path.name == found
    assert find(found, source=source, target=target).path.name == found
    assert "-".join(pair_of(source, target)) == (f"{source}-{target}" if source and target else found)


@pytest.mark.parametrize(
    ("name", "source", "target", "code", "message"),
    [
        (None, "de", "de", 2, "`to` must be another language than `from`, de, but is 'de' instead."),
        (None, "de-DE", "DE", 2, "`to` must be another language than `from`, de-DE, but is 'DE' instead."),
        ("en-de", "de", None, 2, "`from` must be en, as the model is en-de, but is 'de' instead."),
        ("en-de", "en-GB", "deu_Latn", 2, "`to` must be de, as the model is en-de, but is 'deu_Latn' instead."),
        (None, "fi", None, 69, "No bundled model translates fi→… (there is: de→en, en→de); name one that does."),
        (None, "", None, 69, "No bundled model translates"),
    ],
)
def test_languages_that_no_model_has(
    name: str | None, source: str, target: str | None, code: int, message: str
) -> None:
    with pytest.raises((ModelError, UsageError), match=re.escape(message)) as caught:
        find(name, source=source, target=target)
    assert caught.value.exit_code == code
    with pytest.raises((ModelError, UsageError), match=re.escape(message)):
        Translator.from_pretrained(name, source=source, target=target)
    if name is None:
        with pytest.raises(UsageError, match=re.escape(message)):
            pair_of(source, target)


@pytest.mark.parametrize(("native", "wanted"), [(True, "bfloat16"), (False, "float32")])
def test_devices_and_formats(monkeypatch: pytest.MonkeyPatch, native: bool, wanted: str) -> None:
    assert choose_device("cpu") == "cpu"
    by_kernels = [("neon-bf16", "neon"), ("amx", "avx512", "avx2")] if native else [("neon",), ("avx512-vnni", "avx2")]
    for variants, by_torch in (((), native), *((variants, not native) for variants in by_kernels)):
        monkeypatch.setattr("specmt.engine.kernels.library.variants", lambda found=variants: found)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda found=by_torch: found)
        assert choose_format("auto", "cpu") == wanted
    assert choose_format("bfloat16", "cpu") == "bfloat16"
    assert choose_format("int8", "cpu") == "int8"
    with pytest.raises(UsageError, match="float16 is not for the CPU"):
        choose_format("float16", "cpu")
    with pytest.raises(UsageError, match="int8 is not for the GPU"):
        choose_format("int8", "cuda")
    for name in ("tpu", "", "mps", "cuda:99", "cuda:-1", "cuda:", "cuda:1x"):
        with pytest.raises(UsageError):
            choose_device(name)
    with pytest.raises(UsageError):
        choose_format("int3", "cpu")


@pytest.mark.parametrize(
    ("name", "speeds", "fast"),
    [
        ("cpufreq/cpuinfo_max_freq", [5600000, 5300000, 4300000, 4300000], 2),  # efficient cores are slower
        ("cpu_capacity", [446, 446, 1024, 1024, 1024], 3),
        ("cpufreq/cpuinfo_max_freq", [3700000] * 4, 4),
        ("cpu_capacity", ["?"], os.cpu_count()),
        ("unknown", [1, 2], os.cpu_count()),
    ],
)
def test_slow_processors_do_not_count(name: str, speeds: list[object], fast: int, tmp_path: Path) -> None:
    for number, speed in enumerate(speeds):
        path = tmp_path / f"cpu{number}" / name
        path.parent.mkdir(parents=True)
        path.write_text(f"{speed}\n")
    assert count_fast(tmp_path) == fast


def test_architectures() -> None:
    assert set(ARCHS) == {"small", "base"}
    assert verifier_config("base", dropout=0.3) == VerifierConfig(**ARCHS["base"], dropout=0.3)
    with pytest.raises(UsageError, match="must be one of small, base"):
        verifier_config("huge")


def test_the_embedding_table_is_tied(tiny_model: Path) -> None:
    module = create_verifier(VERIFIER_CONFIG, torch.device("cpu"))
    names = [name for name, _ in module.named_parameters()]
    assert set(names) == set(ModelFolder.read(tiny_model).weights(VERIFIER))
    tied = tie_weights(ModelFolder.read(tiny_model).weights(VERIFIER))
    assert set(tied) == set(module.state_dict())


@pytest.fixture(scope="module")
def families(tiny_model: Path) -> Iterator[Any]:
    """Our families in fairseq2, freshly initialised, with cards for the tiny model; here, since it takes seconds."""
    import fairseq2.runtime.dependency
    from fairseq2 import init_fairseq2
    from fairseq2.composition import register_in_memory_assets
    from fairseq2.models import ModelFamily

    from specmt.models.reference import families

    folder = ModelFolder.read(tiny_model)
    assert folder.drafter is not None and folder.autoregressive is not None
    cards = [
        card("tiny", families.VERIFIER_FAMILY, folder.verifier, tiny_model / VERIFIER),
        card("tiny-drafter", families.DRAFTER_FAMILY, folder.drafter, tiny_model / DRAFTER),
        card("tiny-autoregressive", families.AUTOREGRESSIVE_FAMILY, folder.autoregressive, tiny_model / AUTOREGRESSIVE),
    ]

    def extend(container: Any) -> None:
        # Where the package is installed, its entry point has already done this.
        if families.VERIFIER_FAMILY not in container.iter_keys(ModelFamily):
            families.register(container)
        register_in_memory_assets(container, "test", cards)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fairseq2.runtime.dependency, "_resolver", None)
        init_fairseq2(extras=extend, no_progress=True)
        yield families


def card(name: str, family: str, config: VerifierConfig | DecoderConfig, checkpoint: Path) -> dict[str, object]:
    return {
        "name": name,
        "model_family": family,
        "model_arch": "small",
        "model_config": asdict(config),
        "checkpoint": checkpoint.as_uri(),
    }


def test_fairseq2_families_and_architectures(families: Any) -> None:
    for get_hub, config in (
        (families.get_verifier_hub, VerifierConfig),
        (families.get_drafter_hub, DrafterConfig),
        (families.get_autoregressive_hub, DecoderConfig),
    ):
        assert get_hub().get_archs() == {"small", "base"}
        for arch in ("small", "base"):
            assert get_hub().get_arch_config(arch) == config(**ARCHS[arch])


def states_of(memory: Any) -> torch.Tensor:
    """Returns the encoder's output (1, S, D) for one sentence, whoever computed it."""
    states = held(memory.states)
    return torch.from_numpy(states.reshape(1, -1, states.shape[-1])[:, : int(memory.lengths[0])])


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


def test_a_verifier_loaded_by_its_card_gives_the_engines_logits(
    model: Model, sources: list[list[int]], families: Any
) -> None:
    module = families.get_verifier_hub().load_model("tiny", device=torch.device("cpu"), dtype=torch.float32).eval()
    for source in sources[:12]:
        target = np.array([[BOS, *source[:20], *source[:20]]])
        got, wanted = logits_of(model.verifier, [source], target), module_logits(module, [source], target)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_drafter_loaded_by_its_card_gives_the_engines_draft(
    model: Model, sources: list[list[int]], families: Any
) -> None:
    module = (
        families.get_drafter_hub().load_model("tiny-drafter", device=torch.device("cpu"), dtype=torch.float32).eval()
    )
    assert model.folder.drafter is not None
    # The model's own is in int8 on the kernels.
    kernels = model.backend.name == "kernels"
    drafter = drafter_network(model.folder.weights(DRAFTER), model.folder.drafter, "float32", kernels=kernels)
    compared = 0
    for source in sources[:12]:
        target = torch.tensor([[BOS, *source[:20], EOS]])
        length = target.shape[1]
        # One block after the whole of the target.
        blocks = lay_blocks(
            target,
            torch.tensor([length]),
            block_size=1,
            options=BlockOptions(spacing=1e9),
            generator=torch.Generator().manual_seed(0),
        )
        seen = int(blocks.positions[0, -1])
        memory = model.verifier.encode([source])
        with torch.inference_mode():
            encoded = states_of(memory)
            layout = BatchLayout.of(encoded, memory.lengths.tolist())
            states = module(blocks.tokens, blocks.positions, blocks.slots, blocks.bias, encoded, layout)
            logits = module.logits(states[:, -1:], target[:, seen - 1 : seen])[0, 0]
        state = opened(drafter, memory)
        read = Window(target[:, :seen].numpy(), zeros(1))
        draft, _ = drafter.chain(read, 1, state)
        candidates, _ = drafter.expander(read, 1, state).expand(read.tokens[:, -1:], np.zeros((1, 1), np.int64))
        drafted = torch.from_numpy(candidates[0, 0])  # the correction reorders these alone
        best = torch.full_like(logits, -torch.inf).scatter(0, drafted, logits[drafted]).topk(2)
        if best.values[0] - best.values[1] > 1e-3:
            assert draft[0, 0] == best.indices[0]
            compared += 1
    assert compared > 8


def test_an_autoregressive_drafter_loaded_by_its_card_gives_the_engines_logits(
    model: Model, sources: list[list[int]], families: Any
) -> None:
    hub = families.get_autoregressive_hub()
    module = hub.load_model("tiny-autoregressive", device=torch.device("cpu"), dtype=torch.float32).eval()
    config = model.folder.autoregressive
    assert config is not None
    # The model's own is in int8 on the kernels.
    kernels = model.backend.name == "kernels"
    drafter = autoregressive_network(model.folder.weights(AUTOREGRESSIVE), config, "float32", kernels=kernels)
    for source in sources[:12]:
        target = torch.tensor([[BOS, *source[:20], *source[:20]]])
        memory = model.verifier.encode([source])
        encoded = states_of(memory)
        with torch.inference_mode():
            wanted = module.logits(module(target, encoded, BatchLayout.of(encoded)))
        got = scores(drafter, Window(target.numpy(), zeros(1)), opened(drafter, memory))
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_fairseq2_is_told_of_the_families_by_an_entry_point() -> None:
    setup = (Path(__file__).parents[2] / "setup.cfg").read_text()
    assert "fairseq2.extension =\n    specmt = specmt.models.reference.families:register\n" in setup
    assert os.path.exists(Path(__file__).parents[2] / "specmt" / "models" / "reference" / "families.py")
