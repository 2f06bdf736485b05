#!/usr/bin/env python
"""Simulates a long job on many machines, and prints what shards of each size would cost, as tables of Markdown.

Workers take shards from one head, which gives out a shard and writes what comes back, one at a time (`--ray`); or each
has every N-th shard (`--shard I/N`), and the head is the file system, which makes one shard durable at a time. A worker
loads its model before the first shard and dies now and then, with what it had of a shard; another takes its place after
a while. Some workers are slow all the time.

Of the defaults, what a shard costs the head was measured, speed and start-up are estimates from measurements, and
deaths, slow workers and the price are assumed (docs/scale.md).
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True)
class World:
    """What does not change with the number of workers; times in seconds."""

    lines: int
    words: float
    """Of a line."""
    speed: float
    """Lines a second of a worker."""
    load: float
    head: float
    """What a shard costs the head, beside its lines."""
    head_line: float
    lives: float
    """The mean time that a worker lives."""
    back: float
    """What it takes to have another one."""
    slow: float
    """The share of workers that are slow."""
    slowness: float
    price: float
    """Of a worker, an hour."""


@dataclass
class Outcome:
    """What came of it, in seconds."""

    seconds: float
    lost: float
    """The work of all workers that deaths undid."""
    head: float
    """How long the head was busy."""


def simulate(world: World, workers: int, shard: int, *, static: bool, seed: int) -> Outcome:
    """Runs a job, from event to event: a worker is free, or a shard comes back from one that died.

    :param static: whether each worker has its own shards
    """
    draw = random.Random(seed)
    pace = [world.speed / (world.slowness if draw.random() < world.slow else 1.0) for _ in range(workers)]
    death = [draw.expovariate(1 / world.lives) for _ in range(workers)]
    running = -(-world.lines // shard)  # shards that are not done yet
    pools = [len(range(number, running, workers)) for number in range(workers)] if static else [running]
    hold = world.head + world.head_line * shard
    head_free = 0.0
    outcome = Outcome(0.0, 0.0, 0.0)
    free, back = 0, 1
    events = [(world.load, free, number) for number in range(workers)]
    idle: list[int] = []
    while running:
        now, kind, number = heapq.heappop(events)
        pool = number if static else 0
        if kind == back:
            pools[pool] += 1
            if idle:
                heapq.heappush(events, (now, free, idle.pop()))
            continue
        if not pools[pool]:
            idle.append(number)
            continue
        pools[pool] -= 1
        begun = head_free = max(now, head_free) + hold
        outcome.head += hold
        done = begun + shard / pace[number]
        if death[number] < done:
            died = max(death[number], now)
            outcome.lost += max(0.0, died - begun)
            again = died + world.back + world.load
            death[number] = again + draw.expovariate(1 / world.lives)
            heapq.heappush(events, (died, back, number))
            heapq.heappush(events, (again, free, number))
            continue
        running -= 1
        outcome.seconds = max(outcome.seconds, done)
        heapq.heappush(events, (done, free, number))
    return outcome


def table(title: str, shards: list[int], rows: dict[int, list[str]]) -> str:
    """Returns a table of Markdown: workers down, shards across."""
    lines = [f"| {title} | " + " | ".join(f"{size:,}" for size in shards) + " |", "|-:" * (len(shards) + 1) + "|"]
    return (
        "\n".join([*lines, *(f"| {workers:,} | " + " | ".join(cells) + " |" for workers, cells in rows.items())]) + "\n"
    )


@click.command(help=__doc__)
@click.option("--lines", default=10_000_000, show_default=True)
@click.option("--words", default=15.0, show_default=True, help="Words of a line.")
@click.option("--speed", default=250.0, show_default=True, help="Lines a second of a worker.")
@click.option("--load", default=3.0, show_default=True, help="Seconds until a worker is ready.")
@click.option("--head", default=0.015, show_default=True, help="Seconds of the head for a shard.")
@click.option("--head-line", default=2e-6, show_default=True, help="Seconds of the head for a line.")
@click.option("--lives", default=6 * 3600.0, show_default=True, help="Mean seconds that a worker lives.")
@click.option("--back", default=60.0, show_default=True, help="Seconds until another takes its place.")
@click.option("--slow", default=0.05, show_default=True, help="Share of slow workers.")
@click.option("--slowness", default=3.0, show_default=True, help="How many times slower they are.")
@click.option("--price", default=0.04, show_default=True, help="Of a worker, an hour.")
@click.option("--static", is_flag=True, help="Each worker has every N-th shard (`--shard I/N`).")
@click.option("--seed", default=1, show_default=True)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the efficiency.")
def main(static: bool, seed: int, plot: Path | None, **values: float) -> None:
    world = World(**values)  # type: ignore[arg-type]
    shards, counts = [10, 100, 1000, 10_000, 100_000], [1, 10, 100, 1000]
    found = {
        (workers, shard): simulate(world, workers, shard, static=static, seed=seed)
        for workers in counts
        for shard in shards
    }
    million = world.lines * world.words / 1e6

    def show(title: str, cell: str) -> None:
        rows = {
            workers: [
                cell.format(
                    rate=world.lines / (out := found[workers, shard]).seconds,
                    efficiency=world.lines / world.speed / (out.seconds * workers),
                    lost=out.lost / (world.lines / world.speed),
                    head=out.head / out.seconds,
                    cost=workers * out.seconds / 3600 * world.price / million,
                )
                for shard in shards
            ]
            for workers in counts
        }
        click.echo(table(title, shards, rows))

    show("lines a second", "{rate:,.0f}")
    show("of what the workers could do", "{efficiency:.0%}")
    show("work that deaths undid", "{lost:.2%}")
    show("the head is busy", "{head:.1%}")
    show("a million words costs", "{cost:.4f}")
    if plot is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        for workers in counts:
            ideal = world.lines / world.speed / workers
            pyplot.plot(
                shards, [ideal / found[workers, shard].seconds for shard in shards], "o-", label=f"{workers:,} workers"
            )
        pyplot.xscale("log")
        pyplot.xlabel("lines of a shard")
        pyplot.ylabel("share of what the workers could do")
        pyplot.ylim(0, 1)
        pyplot.legend()
        pyplot.savefig(plot, bbox_inches="tight")


if __name__ == "__main__":
    main()
