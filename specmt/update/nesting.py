"""Containers of documents that are trees: what is in them goes and stays as they can have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specmt.formats.outline import OPENING
from specmt.update.record import Item


def containers(items: Sequence[Item]) -> Iterator[list[int]]:
    """Yields for each block those that open the containers that it is in, itself among them if it opens or ends one."""
    opened: list[int] = []
    for number, item in enumerate(items):
        if item.kind in OPENING:
            opened.append(number)
        yield [*opened]
        if item.kind == "end" and opened and items[opened[-1]].key == item.key:
            opened.pop()


def without_room(source: Sequence[Item], target: Sequence[Item], gone: set[int]) -> set[int]:
    """Returns the blocks of a target that cannot stay beside those of the source: a key is a text or a container.

    :param gone: the blocks of the target that have no source
    """
    live = {each.key: each.kind for each in source if each.key and each.kind != "end"}
    places = {number for number in gone if live.get(target[number].key, target[number].kind) != target[number].kind}
    places = {number for number in places if target[number].kind != "end"}
    return {
        number for number, around in enumerate(containers(target)) if not places.isdisjoint([*around, number])
    } & gone


def emptied(target: Sequence[Item], removed: set[int]) -> set[int]:
    """Returns, of the blocks of a target that are to be removed, those that can be: nothing stays in them."""
    around = [*containers(target)]
    needed = {opener for number, each in enumerate(around) if number not in removed for opener in each}
    return {
        number
        for number in removed
        if target[number].kind not in (*OPENING, "end") or not around[number] or around[number][-1] not in needed
    }
