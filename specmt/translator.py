"""Text to translations: a feeder of the session, which sits between the lines of a file and the decoder."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import specmt
from specmt.decoding.drafters import Choice, choose
from specmt.decoding.trace import Trace
from specmt.decoding.translation_memory import TranslationMemory
from specmt.engine.threads import thread_count
from specmt.errors import DataError, ModelError, UsageError
from specmt.feeder import Cutter, Feeder, Pending, SharedSession, feed
from specmt.files import check_unchanged, stamp
from specmt.options import DecodingOptions
from specmt.requirements import Requirements
from specmt.text.alignment import align
from specmt.text.markers import put_markers
from specmt.text.parts import join, original, sentences, uses
from specmt.text.required import Finder
from specmt.text.rules import VERSION, Rules
from specmt.types import Line, Stats, Translation

if TYPE_CHECKING:
    from specmt.decoding.request import Recorder
    from specmt.decoding.session import Session
    from specmt.models.hub import Model
    from specmt.text.glossary import Glossary
    from specmt.text.memory import Pair

_NETWORKS: Final = ("masked", "autoregressive")
"""The drafters that a model must have."""

_HELD: Final = 4
"""How many translation memories and glossaries are held at most."""

_PAIRS: Final = 1024
"""How many pairs of a translation memory are encoded at a time."""


T = TypeVar("T")


@final
class Translator:
    """Translates lines with one model.

    It can be pickled: the copy loads the model from the same folder. Several threads may use it at a time: what they
    ask for is decoded side by side.
    """

    def __init__(self, model: Model, *, session: Session | None = None, **loading: Any) -> None:
        """
        :param session: decodes instead of one of :class:`specmt.decoding.session.Session`
        :param loading: how :meth:`from_pretrained` loads the model again after pickling
        """
        self.model = model
        self._loading = loading
        self._given = session
        self.session: Final = SharedSession(self._open_session)
        """What decodes, for feeders of all threads."""
        self._held: dict[tuple[object, ...], tuple[tuple[int, ...], Any]] = {}  # memories and glossaries, by use
        self._lock = threading.Lock()  # of these

    @classmethod
    def from_pretrained(
        cls,
        name_or_dir: str | Path | None = None,
        *,
        source: str | None = None,
        target: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
        deterministic: bool = True,
    ) -> Translator:
        """Loads a model by its name or folder; by default the bundled one for the languages.

        :param source: a language, in any spelling (``de``, ``DE``, ``de-AT``); what is left out is as the model has it
        :param deterministic: whether a translation must not depend, to the last bit, on its batch.
        :raises ModelError: there is no such model, or it is damaged.
        :raises UsageError: the model is for other languages.
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
        return _load, (str(self.model.path), self._loading)

    def translate(
        self,
        lines: Iterable[str | Line],
        options: DecodingOptions | None = None,
        *,
        glossary: Mapping[str, Sequence[str]] | None = None,
        recorder: Recorder | None = None,
    ) -> Iterator[Translation]:
        """Translates lines lazily and in order; more of them are read while the first ones are decoded.

        If ``lines`` has a method ``ready() -> bool`` (would the next line come at once?), a translation does not wait
        for the next line. A translation memory is read at once, when it is first asked for. What is translated with
        lookups is remembered for those to come, in later calls too.

        :param glossary: terms and what they may be in translations, beside those of the options' glossary
        :param recorder: notes every verifier call
        :raises ModelError: the options ask for a drafter or a shortlist that the model lacks.
        :raises InputNotFoundError: the translation memory or the glossary cannot be read.
        :raises DataError: the translation memory or the glossary is damaged.
        :raises UsageError: there is a glossary beside beam search, sampling or a shortlist.
        """
        options = options or DecodingOptions()
        if options.shortlist:
            _ = self.model.shortlist  # before the first line is read
        choice = choose(options, self.model)
        missing = [name for name in choice.names if name in _NETWORKS and name not in self.model.drafters]
        if missing:
            raise ModelError(
                f"{self.model.path}: the model has no {missing[0]} drafter; train one with `specmt train drafter`, "
                "or decode without it."
            )
        memory = self._memory(options, choice)
        feeder = Feeder(self.session, self.cutter(options, glossary), options, memory, recorder)
        numbered = (Line(i, line) if isinstance(line, str) else line for i, line in enumerate(lines))
        ready = getattr(lines, "ready", lambda: True)
        return (self.translation(pending) for pending in feed(feeder, numbered, ready))

    def remember(self, pairs: Iterable[Pair], options: DecodingOptions) -> None:
        """Keeps pairs of a text and its translation for lookups to copy from, until enough newer ones have come."""
        memory = self._memory(options, choose(options, self.model))
        if memory is not None:
            self.session.remember(memory, [*self._encoded(pairs, options)])

    def trace(self, text: str, options: DecodingOptions | None = None, *, as_run: bool = False) -> Trace:
        """Translates a sentence and returns what happened on the way, in the last attempt where there are several.

        :param as_run: whether that is what `translate` does, as fast as it can: it is done first, and then again to
            look on
        :raises DataError: it is blank, has nothing to translate, or has more pieces than a sentence can have.
        :raises UsageError: the strategy is beam search.
        """
        options = options or DecodingOptions()
        if options.strategy == "beam":
            raise UsageError("`strategy` must be speculative or greedy for a trace, but is 'beam' instead.")
        from specmt.decoding.watch import watch

        aligned = replace(options, alignments=True, split=False)
        model, memory = self.model, self._memory(options, choose(options, self.model))
        rules = self.cutter(aligned).rules
        parts = rules.split(text.strip())
        todo = deque(sentences(parts))
        if not todo or any(part.is_cut for part in todo):
            length = len(self.model.pieces.encode(text.strip()))
            raise DataError(
                f"The sentence must have 1 to {rules.limit} pieces, words among them, but has {length} instead."
            )
        followed, shown = todo[0], None
        while todo:
            part = todo.popleft()
            said, iterations = watch(model, part.ids, aligned, memory, as_run=as_run)
            if part is followed:
                shown = part.ids, iterations, said.tokens
            todo += rules.take(part, said)
        assert shown is not None
        line, written = original(parts), join(parts)
        alignment = align(line, written, parts, self.model.pieces)
        return Trace(*shown, options.lossless and not options.samples, alignment, followed.attempt, line, written)

    def drafts_are_fixed(self, options: DecodingOptions) -> bool:
        """Whether what is drafted for a line depends on the line alone, and not on its batch or the machine."""
        choice = choose(options, self.model)
        return not choice.looks_up and choice.block_size is not None

    def signature(self, options: DecodingOptions) -> dict[str, object]:
        """Returns everything that the figures of a run depend on, the machine aside."""
        choice = choose(options, self.model)
        signature: dict[str, object] = {"specmt": specmt.__version__}
        signature |= {"model": self.model.path.name, "model_sha256": self.model.sha256, "strategy": options.strategy}
        if choice.names:
            signature |= {
                "drafter": "|".join(choice.names),
                "tree": options.tree,
                "block_size": choice.block_size or "auto",
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
            if options.n_best > 1:
                signature["n_best"] = options.n_best
        for name in ("device", "dtype", "numerics", "kernels"):
            # What the model made of `auto`, where it says so.
            signature[name] = getattr(self.model, name, self._loading.get(name, "auto"))
        for name in ("shortlist", "alignments"):
            if getattr(options, name):
                signature[name] = True
        if options.glossary is not None:
            signature["glossary"] = self._glossary(options.glossary).digest
        if options.keep:
            signature["keep"] = [*options.keep]
        signature |= {"text": VERSION, "protect": options.protect is not False, "keep_numbers": options.keep_numbers}
        if options.protect and not self.model.protects:
            signature["stand_ins"] = True
        signature |= {"split": options.split, "longest": self.model.max_source_length - 1}
        signature["threads"] = thread_count()
        signature["batch_size"] = options.batch_size
        return signature

    def _open_session(self) -> Session:
        if self._given is not None:
            return self._given
        from specmt.decoding.session import Session

        return Session(self.model)

    def _memory(self, options: DecodingOptions, choice: Choice) -> TranslationMemory | None:
        """Returns what drafts are copied from: one memory for each file, and one for no file, of what models see."""
        if not choice.looks_up:
            return None
        key = "memory", options.memory, options.protect
        return self._hold(key, options.memory, lambda: self._read_memory(options))

    def _terms(self, options: DecodingOptions, glossary: Mapping[str, Sequence[str]] | None) -> Finder | None:
        """Returns what finds terms whose translation is given, if there are any."""
        finders: list[Finder] = []
        if glossary is not None or options.keep:
            from specmt.text.glossary import make_glossary  # late, as all that few runs need: a start takes no longer

            options.check_constraint("glossary")
            terms: dict[str, Sequence[str]] = {term: [term] for term in options.keep}
            finders.append(make_glossary(terms | dict(glossary or {}), self.model.pieces))
        if options.glossary is not None:
            finders.append(self._glossary(options.glossary))
        return (lambda text: [each for find in finders for each in find(text)]) if finders else None

    def _glossary(self, path: Path) -> Glossary:
        from specmt.text.glossary import read_glossary

        read = partial(read_glossary, path, self.model.pieces, *self.model.languages)
        return self._hold(("glossary", path), path, read)

    def _hold(self, key: tuple[object, ...], path: Path | None, read: Callable[[], T]) -> T:
        """Returns what was read from a file, read again if that has changed; a few are held, by their last use.

        :raises DataError: it changes while it is read.
        """
        now = () if path is None else stamp(path)
        with self._lock:
            before, found = self._held.pop(key, (now, None))
            if found is None or before != (now or before):
                found = read()
                if path is not None:
                    check_unchanged(path, now)
            self._held[key] = now or before, found
            if len(self._held) > _HELD:
                del self._held[next(iter(self._held))]
            return cast("T", found)

    def _read_memory(self, options: DecodingOptions) -> TranslationMemory:
        memory = TranslationMemory()
        if options.memory is not None:
            from specmt.pairs import read_pairs

            pairs = read_pairs(options.memory, *self.model.languages, unsure=True)
            for source, target in self._encoded(pairs, options):
                memory.add(source, target)
        return memory

    def _encoded(self, whole: Iterable[Pair], options: DecodingOptions) -> Iterator[tuple[list[int], list[int]]]:
        """Yields the ids of pairs, in the parts that a model sees."""
        pieces, rules = self.model.pieces, self.cutter(replace(options, glossary=None)).rules
        # Nothing as long as what is left out is ever translated whole.
        parts = (part for pair in whole for part in rules.split_pair(*pair))
        pairs = (part for part in parts if all(map(rules.is_short, part)))
        while chunk := list(islice(pairs, _PAIRS)):
            sources, targets = zip(*chunk, strict=True)
            yield from zip(pieces.encode_batch(sources), pieces.encode_targets(targets), strict=True)

    def cutter(self, options: DecodingOptions, glossary: Mapping[str, Sequence[str]] | None = None) -> Cutter:
        """Returns what makes sentences of lines.

        :param glossary: terms and what they may be in translations, beside those of the options' glossary
        """
        rules = Rules(
            self.model.pieces,
            self.model.max_source_length - 1,  # EOS
            self.model.languages,
            protects=options.protect is not False,
            keeps_numbers=options.keep_numbers,
            stands_in=self.model.protects or options.protect is True,
            splits=options.split,
            lexicon=self.model.lexicon,
            terms=self._terms(options, glossary),
        )
        # What terms are asked for with takes its time to make with large vocabularies.
        is_asked = rules.terms is not None
        return Cutter(rules, Requirements(self.model.pieces, self.model.alignment_heads) if is_asked else None)

    def translation(self, pending: Pending) -> Translation:
        """Returns the translation of a line whose sentences are all decoded."""
        line, parts, pieces = pending.line, pending.parts, self.model.pieces
        options, rules = pending.feeder.options, pending.feeder.cutter.rules
        seen = list(sentences(parts))
        warnings = []
        if windows := [part for part in seen if part.is_cut]:
            what = f"a sentence is longer than {rules.limit} pieces"
            warnings.append(f"{what}; its {len(windows)} parts were translated by themselves")
        terms = [use for part in seen for use in uses(part)]
        warnings += [f"{use.source!r} should be {' or '.join(use.forms)}, but is not" for use in terms if not use.found]
        left = [each for part in seen for each in (part, *chain.from_iterable(part.fragments)) if each.is_left]
        problems = [f"{part.source!r} stays as it is: what the model says is damaged" for part in left]
        hypotheses = [hypothesis for part in parts for hypothesis in part.final]
        stats = sum((each.stats for part in parts for each in part.all), Stats())
        score = math.fsum(hypothesis.score for hypothesis in hypotheses) if options.scores else math.nan
        log_probs = tuple(chain.from_iterable(each.log_probs[: len(each.tokens)] for each in hypotheses))
        text, tagged = join(parts), pending.tagged
        others = []
        if options.n_best > 1:
            from specmt.text.n_best import alternatives

            others = alternatives(parts, rules, options.n_best - 1, score)
        is_aligned = options.alignments and line.aligned
        alignment = align(original(parts), text, parts, pieces) if is_aligned or tagged.tags else None
        if tagged.tags:
            text = put_markers(tagged, line.text, text, alignment)
            others = [each._replace(text=put_markers(tagged, line.text, each.text)) for each in others]
        if options.check:
            from specmt.text.checks import check

            problems += check(line.text, text, self.model.languages)
        return Translation(
            line,
            text,
            tokens=[piece for hypothesis in hypotheses for piece in pieces.pieces(hypothesis.tokens)],
            score=score,
            log_probs=log_probs,
            confidence=self._confidence(line.text, text, log_probs, options, is_left=bool(left)),
            stats=replace(
                stats,
                lines=line.count,
                sentences=len(hypotheses),
                attempts=[sum(part.attempt == number for part in seen) for number in range(3)],
                left=len(left),
                warnings=len(problems) if options.check else 0,
            ),
            lossless=options.lossless,
            alternatives=others,
            alignment=alignment if is_aligned else None,
            terms=terms,
            warnings=warnings + problems,
        )

    def _confidence(
        self, source: str, text: str, log_probs: Sequence[float], options: DecodingOptions, *, is_left: bool
    ) -> float | None:
        """Returns the probability that a translation is acceptable, of what is said as it was for the fit."""
        tell = self.model.confidence
        if tell is None or not (options.scores and options.is_greedy):
            return None
        return 0.0 if is_left and log_probs else tell(source, text, log_probs)


def _load(folder: str, loading: dict[str, Any]) -> Translator:
    return Translator.from_pretrained(folder, **loading)
