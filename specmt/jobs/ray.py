"""Jobs on a Ray cluster: rows of a dataset (Ray Data), or shards of a job, translated by actors that each hold a model.

It needs ``pip install 'specmt[ray]'`` here and on every node, and the model at the same place or by the same name.
"""

from __future__ import annotations

import math
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np
import ray
from ray.data import ActorPoolStrategy
from ray.exceptions import RayActorError, RayError, RayTaskError

from specmt.errors import ModelError, SpecmtError, UsageError
from specmt.jobs import manifest
from specmt.jobs.folder import JobFolder, Shard
from specmt.jobs.worker import check_glossary
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from ray.data import Dataset

_Row = tuple[int, str, str, bool]
"""What a line holds, which is pickled a hundred times as fast as the line itself."""

_AT_ONCE: Final = 2
"""Shards that an actor has at a time: the second one takes the rows that become free towards the end of the first."""


@final
class Translate:
    """Translates rows of a dataset: a class for ``Dataset.map_batches``, of which each actor has one.

    It reads the column ``source`` and adds ``translation``, ``score`` (NaN unless the options ask for scores) and
    ``error``, which is empty, or says why a row has no translation.
    """

    def __init__(
        self, model: str | None, options: DecodingOptions, numerics: str | None, loading: Mapping[str, Any]
    ) -> None:
        """
        :param numerics: what bits depend on; a node that has another number format or kernel family is refused
        :raises ModelError: there is no such model here, or it would not give the same bits.
        """
        self._translator = Translator.from_pretrained(model, **loading)
        self._options = options
        check_numerics(self._translator, numerics)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns a batch of columns (B) with the columns that it adds."""
        made = self._translated(list(batch["source"]))
        return batch | {
            "translation": np.array([text for text, _, _ in made], dtype=object),
            "score": np.array([score for _, score, _ in made], dtype=np.float64),
            "error": np.array([error for _, _, error in made], dtype=object),
        }

    def _translated(self, sources: list[Any]) -> list[tuple[str, float, str]]:
        """Returns text, score and error of each."""
        try:
            if not all(isinstance(source, str) for source in sources):
                raise UsageError("`source` must be text.")
            return [(each.text, each.score, "") for each in self._translator.translate(sources, self._options)]
        except (SpecmtError, MemoryError) as error:
            if len(sources) == 1:
                return [("", np.nan, " ".join(str(error).split()) or type(error).__name__)]
            return [self._translated([source])[0] for source in sources]


def translate_dataset(
    dataset: Dataset,
    model: str | None = None,
    options: DecodingOptions | None = None,
    *,
    actors: int | tuple[int, int] = 1,
    threads: int = 1,
    numerics: str | None = None,
    **loading: Any,
) -> Dataset:
    """Returns a dataset with translations of the column ``source``, made by actors (:class:`Translate`).

    Rows may come in another order; sort by a column of your own. With ``ray.data.checkpoint.CheckpointConfig`` the same
    pipeline goes on after the cluster was lost.

    :param actors: how many, or the fewest and the most
    :param threads: of each actor, which claims as many processors, less what Ray needs to read and write with
    :param numerics: what all actors must compute in, as ``Translator.model.numerics`` names it; by default what one of
        them does
    :param loading: other arguments of :meth:`specmt.Translator.from_pretrained`
    """
    loading = loading | {"threads": threads}
    options = options or DecodingOptions()
    fewest, most = actors if isinstance(actors, tuple) else (actors, actors)
    if numerics is None:
        numerics = ray.get(ray.remote(num_cpus=threads)(_numerics).remote(model, loading))
    return dataset.map_batches(
        Translate,
        fn_constructor_args=(model, options, numerics, loading),
        batch_size=manifest.SHARD_LINES,
        batch_format="numpy",
        num_cpus=_claim(threads),
        compute=ActorPoolStrategy(min_size=fewest, max_size=most),
    )


def _claim(threads: int) -> float:
    """Returns how many processors an actor of a dataset claims.

    Ray lists files, cuts blocks and looks up checkpoints in tasks that need a whole processor, and waits for ever where
    actors have them all. Of n nodes with p processors, actors leave n: so there is a node that has one.
    """
    sizes = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
    nodes = [size for size in sizes if size >= 1]
    return math.floor(1e4 * threads * (1 - len(nodes) / sum(nodes))) / 1e4 if nodes else float(threads)


class Recipe(NamedTuple):
    """How actors turn lines into output."""

    model: str | None
    loading: dict[str, Any]
    options: DecodingOptions
    render: Callable[[Translation], str]
    numerics: str
    glossary: str | None = None
    """The digest of the glossary, which must be the same on every node."""


class _Shards:
    """An actor that translates shards of a job."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def load(self) -> None:
        """Loads the model: not when the actor is made, so that what is wrong with it is told like other failures."""
        self._translator = Translator.from_pretrained(self._recipe.model, **self._recipe.loading)
        check_numerics(self._translator, self._recipe.numerics)

    def translate(self, rows: list[_Row]) -> Shard:
        """Returns what comes of lines."""
        part = Shard()
        for translation in self._translator.translate((Line(*row) for row in rows), self._recipe.options):
            part.add(translation, self._recipe.render)
        check_glossary(self._translator, self._recipe.options, self._recipe.glossary)
        return part


class _Task(NamedTuple):
    """What an actor does."""

    worker: Any
    shard: int | None
    """``None`` while it loads the model."""

    rows: list[_Row]


@contextmanager
def connected(address: str) -> Iterator[int]:
    """Connects to a cluster; yields how many processors it has.

    :param address: of a cluster that runs, ``auto`` for one that has a node here, or ``local`` for one that lives as
        long as the block
    :raises UsageError: there is none.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        # Ray itself would wait for minutes, and then end the process.
        if (found := re.fullmatch(r"(.+):(\d+)", address)) is not None and "://" not in address:
            socket.create_connection((found[1], int(found[2])), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, OverflowError, RayError, ValueError, RuntimeError) as error:
        raise UsageError(f"`ray`: there is no cluster at {address} ({str(error).splitlines()[0]}).") from error
    try:
        yield int(ray.cluster_resources().get("CPU", 1))
    finally:
        ray.shutdown()


def work(
    job: JobFolder, shards: Collection[int], lines: Iterable[Line], recipe: Recipe, *, actors: int, threads: int
) -> Iterator[int]:
    """Translates shards of a job on the cluster; yields each when it is written.

    Lines go to the actors and output comes back, so that nothing but the model need be there. Where an actor dies,
    alone or with its node, its shards go to others, and a new one takes its place as soon as there is one for it.

    :param lines: all lines of the input; those of other shards are passed over
    :raises ModelError: an actor cannot load the model, or would give other bits.
    :raises SpecmtError: the cluster is gone.
    """
    kind = ray.remote(num_cpus=threads, max_concurrency=_AT_ONCE)(_Shards)
    running: dict[Any, _Task] = {}
    free: list[Any] = []  # actors, as often as they may be given a shard
    alive: set[Any] = set()
    again: deque[tuple[int, list[_Row]]] = deque()
    rest = _cut(job, frozenset(shards), lines)

    def start() -> None:
        worker = kind.remote(recipe)
        running[worker.load.remote()] = _Task(worker, None, [])

    try:
        for _ in range(actors):
            start()
        while True:
            while free and (item := again.popleft() if again else next(rest, None)) is not None:
                worker = free.pop()
                running[worker.translate.remote(item[1])] = _Task(worker, *item)
            if free and all(task.shard is None for task in running.values()):
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            task = running.pop(done)
            try:
                made = ray.get(done)
            except RayActorError:
                if task.shard is not None:
                    again.append((task.shard, task.rows))
                free = [worker for worker in free if worker is not task.worker]
                if task.worker in alive or task.shard is None:
                    alive.discard(task.worker)
                    start()
                continue
            if task.shard is None:
                alive.add(task.worker)
                free += [task.worker] * _AT_ONCE
                continue
            job.write(task.shard, made)
            if task.worker in alive:
                free.append(task.worker)
            yield task.shard
    except RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, SpecmtError) else SpecmtError(f"on the cluster: {cause}") from error
    except RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise SpecmtError(f"the cluster is gone or cannot go on ({reason}); the same command goes on.") from error


def _cut(job: JobFolder, wanted: frozenset[int], lines: Iterable[Line]) -> Iterator[tuple[int, list[_Row]]]:
    """Yields the lines of each shard."""
    rest = iter(lines)
    for shard in range(job.manifest.shards):
        some = list(islice(rest, len(job.manifest.span(shard))))
        if shard in wanted:
            yield shard, [(line.index, line.text, line.ending, line.aligned) for line in some]


def check_numerics(translator: Translator, numerics: str | None) -> None:
    """
    :raises ModelError: a model computes here in another number format, or with other kernels, than it should.
    """
    here = getattr(translator.model, "numerics", "")
    if numerics is not None and here != numerics:
        raise ModelError(
            f"`numerics` must be {numerics} on every node, but is {here} on {ray.util.get_node_ip_address()}; "
            "`--dtype int8` and float32 give the same bits on all processors that have kernels."
        )


def _numerics(model: str | None, loading: Mapping[str, Any]) -> str:
    return str(getattr(Translator.from_pretrained(model, **loading).model, "numerics", ""))
