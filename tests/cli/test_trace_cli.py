"""`specmt trace` in real processes."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

from tests.commands import COMMAND, Execute, execute, model_options

SENTENCE = "Wo ist der Bahnhof?"


specmt = partial(execute, *COMMAND)


def test_terminal_page_and_json_tell_the_same_story(tiny_model: Path, tmp_path: Path) -> None:
    options = model_options(tiny_model)
    wanted = specmt("translate", *options, "--strategy", "greedy", data=SENTENCE.encode()).stdout.decode().strip()
    file = tmp_path / "trace.html"
    both = specmt("trace", *SENTENCE.split(), "--json", "--html", file, *options)
    assert both.returncode == 0, both.stderr.decode()
    assert re.sub(b"specmt: note: PyTorch computes.*\n", b"", both.stderr) == b""  # where there are no kernels
    assert both.stdout.count(b"\n") == 1
    found = json.loads(both.stdout)
    assert found["translation"]["text"] == wanted
    assert found["lossless"] is True
    first = found["iterations"][0]
    assert first["mask_slots"] == 4  # the drafter's own block size
    assert len(first["nodes"]) == 4
    assert sum(len(each["emitted"]) for each in found["iterations"]) == found["stats"]["tokens"]
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("<section") == found["stats"]["verifier_calls"]
    assert os.listdir(tmp_path) == ["trace.html"]

    drawn = specmt("trace", *options, data=f"{SENTENCE}\r\nNoch eine Zeile\n".encode(), COLUMNS="40")
    assert drawn.returncode == 0, drawn.stderr.decode()
    assert b"\x1b" not in drawn.stdout
    lines = drawn.stdout.decode().split("\n")
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("Iteration ") for line in lines) == found["stats"]["verifier_calls"]
    assert "Noch" not in drawn.stdout.decode()

    written = specmt("trace", SENTENCE, "--html", "-", *options, PYTHONIOENCODING="ascii")
    assert written.stdout == page.encode()


def test_ways_of_decoding(either_model: Path, tmp_path: Path, here: Execute) -> None:
    memory = tmp_path / "memory.tsv"
    memory.write_text(f"{SENTENCE}\tWhere is the station?\n", encoding="utf-8")
    options = model_options(either_model)
    runs = {
        name: here("trace", SENTENCE, "--json", *arguments, *options)
        for name, arguments in {
            "tree": ["--tree", "best-first", "--nodes", "8", "--block-size", "3"],
            "lossy": ["--tolerance", "2", "--beta", "4"],
            "sampled": ["--temperature", "1", "--tree", "sampled", "--width", "3", "--seed", "5"],
            "memory": ["--memory", str(memory)],
            "greedy": ["--strategy", "greedy"],
        }.items()
    }
    found = {}
    for name, result in runs.items():
        assert result.returncode == 0, f"{name}: {result.stderr.decode()}"
        found[name] = json.loads(result.stdout)
    assert len(found["tree"]["iterations"][0]["nodes"]) == 8
    assert found["lossy"]["lossless"] is found["sampled"]["lossless"] is False
    assert len(found["lossy"]["iterations"][0]["verified"][0]) == 4
    assert found["sampled"]["iterations"][0]["trials"]
    assert found["greedy"]["stats"]["drafted"] == 0
    for name in ("tree", "memory"):
        assert found[name]["translation"] == found["greedy"]["translation"]
        assert found[name]["stats"]["verifier_calls"] <= found["greedy"]["stats"]["verifier_calls"]


def test_colours_long_texts_and_a_full_disk(tiny_model: Path) -> None:
    options = model_options(tiny_model)
    assert b"\x1b[" in specmt("trace", SENTENCE, *options, FORCE_COLOR="1").stdout
    long = specmt("trace", "Wort " * 400, *options)
    assert long.returncode == 65
    assert b"must have 1 to " in long.stderr
    command = f"{' '.join(COMMAND)} trace x {' '.join(options)} > /dev/full"
    full = execute("bash", "-c", command)
    assert full.returncode == 74
    assert b"No space left" in full.stderr
