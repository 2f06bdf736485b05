"""Text to translations: what sits between the lines of a file and the decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

import specmt
from specmt.decoding.memory import TranslationMemory
from specmt.errors import DataError, ModelError, UsageError
from specmt.options import DecodingOptions
from specmt.text.memory import read_memory
from specmt.text.parts import Part, is_short, join, split_lines, split_pair
from specmt.types import Hypothesis, Line, Stats, Translation

if TYPE_CHECKING:
    from specmt.decoding.trace import Recorder, Trace
    from specmt.models.hub import Model
    from specmt.text.pieces import PieceModel

Place = tuple[int, int]
Places = Sequence[Place]
"""The line that each sentence comes from, and its number among the sentences of the line."""

Decode = Callable[[Any, Sequence[list[int]], DecodingOptions, Places], list[Hypothesis]]
"""Decodes piece ids (without EOS, never empty) into one hypothesis each, in the same order."""

WINDOW_BATCHES: Final = 8
"""How many full batches of lines are read ahead, so that lengths can be sorted and rows refilled."""

_PAIRS: Final = 1024
"""How many pairs of a translation memory are encoded at a time."""


class LoadedModel(Protocol):
    """What the translator needs to know of a model."""

    @property
    def pieces(self) -> PieceModel:
        """What turns text into ids and back."""

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""

    @property
    def max_source_length(self) -> int:
        """The most source pieces of a sentence, EOS included."""

    @property
    def path(self) -> Path:
        """The folder that it was loaded from."""

    @property
    def has_drafter(self) -> bool:
        """Whether it has a masked drafter."""

    def block_size(self, options: DecodingOptions) -> int | None:
        """Returns the number of tokens that its drafter proposes; ``None`` if that changes as it goes."""

    @property
    def sha256(self) -> str:
        """The hash of its weights."""


@final
class Translator:
    """Translates lines with one model.

    It can be pickled: the copy loads the model from the same folder.
    """

    def __init__(self, model: LoadedModel, *, decode: Decode | None = None, **loading: Any) -> None:
        """
        :param decode: decodes instead of :func:`specmt.decoding.batch.decode`.
        :param loading: how :meth:`from_pretrained` loads the model again after pickling.
        """
        self.model = model
        self._decode = decode
        self._loading = loading
        self._memories: dict[tuple[Path | None, bool], TranslationMemory] = {}

    @classmethod
    def from_pretrained(
        cls,
        name_or_dir: str | Path | None = None,
        *,
        source: str = "de",
        target: str = "en",
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
        deterministic: bool = True,
    ) -> Translator:
        """Loads a model by its name or folder; by default the bundled one for the languages.

        :param deterministic: whether a translation must not depend, to the last bit, on its batch.
        :raises ModelError: there is no such model, or it is damaged.
        """
        from specmt.models.hub import load_model

        loading: dict[str, Any] = {
            "source": source,
            "target": target,
            "device": device,
            "dtype": dtype,
            "threads": threads,
            "deterministic": deterministic,
        }
        return cls(load_model(name_or_dir, **loading), **loading)

    def __reduce__(self) -> tuple[Callable[..., Translator], tuple[object, ...]]:
        return _load, (str(self.model.path), self._loading, self._decode)

    def translate(
        self,
        lines: Iterable[str | Line],
        options: DecodingOptions | None = None,
        *,
        window: int | None = None,
        recorder: Recorder | None = None,
    ) -> Iterator[Translation]:
        """Translates lines lazily, in order, as many at a time as ``window`` says.

        :param window: by default 8 batches; more lets sentences of like length meet, fewer answers sooner.
        :param recorder: is told of every pass over a sentence.

        A translation memory is read at once, when it is first asked for. What is translated with lookups is remembered
        for those to come, in later calls too.

        :raises ModelError: the options ask for a drafter or a shortlist that the model lacks.
        :raises UsageError: ``window`` is less than 1.
        :raises InputNotFoundError: the translation memory cannot be read.
        :raises DataError: the translation memory is damaged.
        """
        options = options or DecodingOptions()
        options = self._for_model(options)
        if options.strategy == "speculative" and options.drafter == "masked" and not self.model.has_drafter:
            raise ModelError(
                f"{self.model.path}: the model has no masked drafter; leave `--drafter` and `--tolerance` out, "
                "or train one with `specmt train drafter`."
            )
        if options.shortlist:
            _ = cast("Model", self.model).shortlist  # before the first line is read
        if window is None:
            window = default_window(options)
        if window < 1:
            raise UsageError(f"`window` must be at least 1, but is {window} instead.")
        return self._translate(lines, options, window, self._memory(options), recorder)

    def trace(self, text: str, options: DecodingOptions | None = None) -> Trace:
        """Translates a sentence and returns what happened on the way.

        :raises DataError: it is blank, or has more pieces than a sentence can have.
        :raises UsageError: the strategy is beam search.
        """
        options = self._for_model(options or DecodingOptions())
        if options.strategy == "beam":
            raise UsageError("`strategy` must be speculative or greedy for a trace, but is 'beam' instead.")
        from specmt.decoding.batch import decode  # here, since they import torch
        from specmt.decoding.trace import Recorder, Trace

        ids, limit = self.model.pieces.encode(text.strip()), self.model.max_source_length - 1  # EOS
        if not 1 <= len(ids) <= limit:
            raise DataError(f"The sentence must have 1 to {limit} pieces, but has {len(ids)} instead.")
        recorder = Recorder(options.beta)
        model = cast("Model", self.model)
        (hypothesis,) = decode(model, [ids], options, memory=self._memory(options), recorder=recorder)
        is_greedy = options.lossless and not options.samples
        return Trace(ids, recorder.iterations[0], hypothesis.tokens, is_greedy)

    def drafts_are_fixed(self, options: DecodingOptions) -> bool:
        """Whether what is drafted for a line depends on the line alone, and not on its batch or the machine."""
        if options.strategy != "speculative":
            return True
        options = self._for_model(options)
        return not options.looks_up and self.model.block_size(options) is not None

    def signature(self, options: DecodingOptions) -> dict[str, object]:
        """Returns everything that the figures of a run depend on, the machine aside."""
        import torch

        options = self._for_model(options)
        speculative = options.strategy == "speculative" and options.drafter != "none"
        signature: dict[str, object] = {"specmt": specmt.__version__, "torch": torch.__version__}
        signature |= {"model": self.model.path.name, "model_sha256": self.model.sha256, "strategy": options.strategy}
        if speculative:
            signature |= {
                "drafter": "+".join(options.drafters),
                "tree": options.tree,
                "block_size": self.model.block_size(options) or "auto",
                "beta": options.beta,
                "tolerance": options.tolerance,
            }
            if options.tree == "best-first":
                signature["nodes"] = options.nodes or "auto"
            if options.tree == "sampled":
                signature["width"] = options.width
            if options.memory is not None:
                signature["memory"] = options.memory.name
        if options.samples:
            signature |= {"temperature": options.temperature, "top_k": options.top_k, "seed": options.seed}
        if options.strategy == "beam":
            signature |= {"beam_size": options.beam_size, "length_penalty": options.length_penalty}
        for name in ("device", "dtype"):
            # What the model made of `auto`, where it says so.
            resolved = getattr(self.model, name, self._loading.get(name, "auto"))
            signature[name] = str(resolved).removeprefix("torch.")
        if options.shortlist:
            signature["shortlist"] = True
        signature["protect"] = _protects(options)
        signature["threads"] = torch.get_num_threads()
        signature["batch_size"] = options.batch_size
        return signature

    def _for_model(self, options: DecodingOptions) -> DecodingOptions:
        return options.for_model(has_drafter=self.model.has_drafter)

    def _memory(self, options: DecodingOptions) -> TranslationMemory | None:
        """Returns what drafts are copied from: one memory for each file, and one for no file, of what models see."""
        if not options.looks_up:
            return None
        key = options.memory, _protects(options)
        if key not in self._memories:
            self._memories[key] = self._read_memory(*key)
        return self._memories[key]

    def _read_memory(self, path: Path | None, protects: bool) -> TranslationMemory:
        memory = TranslationMemory()
        if path is None:
            return memory
        pieces = self.model.pieces
        limit = self.model.max_source_length
        whole = read_memory(path, *self.model.languages)
        # Nothing as long as what is left out is ever translated whole.
        parts = (part for pair in whole for part in split_pair(*pair, protects=protects))
        pairs = (part for part in parts if all(is_short(text, limit) for text in part))
        while chunk := list(islice(pairs, _PAIRS)):
            sources, targets = zip(*chunk, strict=True)
            ids = (pieces.encode_batch(sources), pieces.encode_targets(targets))
            for source, target in zip(*ids, strict=True):
                memory.add(source, target)
        return memory

    def _translate(
        self,
        lines: Iterable[str | Line],
        options: DecodingOptions,
        window: int,
        memory: TranslationMemory | None,
        recorder: Recorder | None,
    ) -> Iterator[Translation]:
        numbered = (Line(i, line) if isinstance(line, str) else line for i, line in enumerate(lines))
        decode = self._decode or _default_decode(memory, recorder)
        while chunk := list(islice(numbered, window)):
            yield from self._translate_window(chunk, options, decode)

    def _translate_window(self, lines: list[Line], options: DecodingOptions, decode: Decode) -> list[Translation]:
        pieces = self.model.pieces
        limit = self.model.max_source_length - 1  # EOS
        split = split_lines([line.text.strip() for line in lines], pieces, limit, protects=_protects(options))
        todo = [
            ((line.index, number), part)
            for line, (parts, _) in zip(lines, split, strict=True)
            for number, part in enumerate(part for part in parts if part.ids)
        ]
        self._decode_parts(todo, options, decode)
        # Where the model did not copy its stand-ins, it has to see what they stand for.
        again = [(place, part) for place, part in todo if part.has_lost and part.uncover(pieces, limit)]
        self._decode_parts(again, options, decode)
        return [self._translation(line, *each, options) for line, each in zip(lines, split, strict=True)]

    def _decode_parts(self, todo: list[tuple[Place, Part]], options: DecodingOptions, decode: Decode) -> None:
        """Translates parts, each with its place."""
        if not todo:
            return
        hypotheses = decode(self.model, [part.ids for _, part in todo], options, [place for place, _ in todo])
        for (_, part), hypothesis in zip(todo, hypotheses, strict=True):
            part.add(hypothesis, self.model.pieces.decode(hypothesis.tokens))

    def _translation(self, line: Line, parts: list[Part], is_long: bool, options: DecodingOptions) -> Translation:
        warnings = []
        if is_long:
            limit = self.model.max_source_length - 1  # EOS
            warnings.append(f"line is longer than {limit} pieces and was translated in {len(parts)} parts")
        if lost := sum(part.has_lost for part in parts if part.ids):
            warnings.append(f"{lost} of {len(parts)} parts may lack addresses or placeholders")
        hypotheses = [part.hypotheses[0] for part in parts if part.ids]
        stats = sum((each.stats for part in parts for each in part.hypotheses), Stats())
        return Translation(
            line,
            join(line.text, parts),
            tokens=[piece for hypothesis in hypotheses for piece in self.model.pieces.pieces(hypothesis.tokens)],
            score=math.fsum(hypothesis.score for hypothesis in hypotheses) if options.scores else math.nan,
            stats=replace(stats, lines=1, sentences=len(hypotheses)),
            lossless=options.lossless,
            warnings=warnings,
        )


def default_window(options: DecodingOptions) -> int:
    """Returns the number of lines that are translated at a time."""
    return WINDOW_BATCHES * options.batch_size


def _protects(options: DecodingOptions) -> bool:
    # To try again where a stand-in was lost would be to choose among samples.
    return options.protect and not options.samples


def _default_decode(memory: TranslationMemory | None, recorder: Recorder | None) -> Decode:
    from specmt.decoding.batch import decode  # here, since it imports torch

    return partial(decode, memory=memory, recorder=recorder)


def _load(folder: str, loading: dict[str, Any], decode: Decode | None) -> Translator:
    translator = Translator.from_pretrained(folder, **loading)
    return Translator(translator.model, decode=decode, **loading)
