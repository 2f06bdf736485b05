"""Memory spread over the nodes of a machine, which has one mostly: the system says what it was told."""

from __future__ import annotations

import platform
from pathlib import Path
from unittest.mock import Mock

import pytest

from specmt.engine.kernels.numa import allowed_nodes, spread


def policy() -> str:
    """Returns where new memory of this process is from, as Linux shows it."""
    return Path("/proc/self/numa_maps").read_text(encoding="ascii").split()[1]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("0", {0}), ("0-1", {0, 1}), ("0,2-3,65", {0, 2, 3, 65}), ("", set()), ("?", set())],
)
def test_nodes_that_may_be_used(text: str, nodes: set[int], tmp_path: Path) -> None:
    (tmp_path / "status").write_text(f"Name:\tpython\nMems_allowed:\t1\nMems_allowed_list:\t{text}\n")
    assert allowed_nodes(tmp_path / "status") == nodes
    assert allowed_nodes(tmp_path / "other") == set()


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="this system does not say where memory is from")
def test_pages_come_from_all_nodes_in_turn() -> None:
    nodes, before = allowed_nodes(), policy()
    with spread(nodes, least=1):
        assert policy().startswith("interleave")
        with spread(nodes, least=1):  # someone has said so already
            pass
        assert policy().startswith("interleave")
    assert policy() == before
    with spread({0}):  # one node alone
        assert policy() == before


@pytest.mark.parametrize(("system", "asked"), [("Linux", True), ("Darwin", False)])
def test_other_systems_are_asked_for_nothing(system: str, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Mock()
    monkeypatch.setattr("ctypes.CDLL", library)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: system)
    with spread({0, 1}):
        assert library.called == asked
    assert library.called == asked
