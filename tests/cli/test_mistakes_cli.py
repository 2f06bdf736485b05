"""What commands say of mistakes: one line, before a model is loaded, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands import fails
from tests.documents import PO

LATIN = "latin.de: line 1 is not valid UTF-8 at byte offset 3; "
FILES = {
    "in.de": b"Hund\n",
    "blank.de": b" \n\n",
    "latin.de": b"Caf\xe9\n",
    "a.de": b"Ein Hund.\n\nWo?\nDas ist ein Haus.\nGuten Tag.\n",
    "a.en": b"A dog.\n\nWhere?\nThis is a house.\nHello.\n",
    "short.en": b"A dog.\n\nWhere?\nThis is a house.\n",
    "latin.en": b"a\xe4\n" * 5,
    "empty.en": b"",
    "terms.tsv": b"Datei\n",
    **dict.fromkeys(("a.po", "b.po", "c.md", "d.bin", "d.de", "sub/a.po"), PO.encode()),
}
EARLY: dict[str, list[tuple[list[str], int, str]]] = {
    "translate": [
        (["--beta", "0"], 2, "`beta` must be at least 1, but is 0 instead."),
        (["--beam-size", "5"], 2, "`beam_size` has no effect without `strategy` beam; leave it out."),
        (["--trees", "chain"], 2, "No such option '--trees'"),
        (["--strategy", "x"], 2, "'x' is not one of 'speculative', 'greedy', 'beam'. See `specmt translate --help`."),
        (["--block-size", "x"], 2, "must be a whole number or auto, but is 'x' instead. See "),
        (["a", "b"], 2, "a: has an unknown format"),
        (["--threads", "0"], 2, "`threads` must be at least 1"),
        (["--device", "tpu"], 2, "`device` must be"),
        (["--scores"], 2, "`--scores` needs"),
        (["--wrapped", "--format", "tsv"], 2, "`--wrapped` needs `--format text`."),
        (["--wrapped", "--resume"], 2, "`--wrapped` does not go together with `--resume`; leave one out."),
        (["--wrapped", "--file-format", "html"], 2, "`wrapped` has no effect with documents; leave it out."),
        (["--wrapped", "a.parquet", "-o", "b", "--ray", "x"], 2, "`wrapped` has no effect with parquet files"),
        (["--strict", "--shard", "1/2", "in.de", "-o", "x"], 2, "`strict` is of the whole, but `shard` does a part"),
        (["-q", "-v"], 2, "exclude each other"),
        (["in.de", "-i", "in.de"], 2, "twice"),
        (["-o", "x", "--stats", "./x"], 2, "`--stats` and `--output` are the same file, x."),
        (["in.de", "--stats", "in.de"], 2, "`--stats` and the input are the same file, in.de."),
        (["in.de", "--stats", "link"], 2, "`--stats` and the input are the same file, link."),
        (["in.de", "-o", "link"], 2, "`--output` and the input are the same file, link."),
        (["--stats", "link", "--memory", "in.de"], 2, "`--stats` and `--memory` are the same file, link."),
        (["none.de"], 66, "none.de: no such file."),
        (["none.de.gz"], 66, "none.de.gz: no such file."),
        (["-i", "empty"], 66, "empty: has no file of a known format."),
        (["--memory", "none.tmx"], 66, "none.tmx: no such file."),
        (["--memory", "."], 66, ".: is a directory"),
        (["-o", "."], 74, ".: is a directory"),
        (["-o", "none/out.en"], 74, "none/out.en: cannot be written (No such file or directory)."),
        (["-o", "out.en", "--stats", "none/stats.json"], 74, "none/stats.json: cannot be written"),
        (["a.po", "b.po"], 2, "`output` must be a folder for several files, but is left out."),
        (["a.po", "b.po", "-o", "c.md"], 2, "`output` must be a folder for several files, but is the file c.md."),
        (["a.po", "sub/a.po", "-o", "out"], 2, "a.po and sub/a.po would both be written to out/a.po."),
        (["a.po", "d.bin", "-o", "out"], 2, "d.bin: has a format that is not read (.bin)"),
        (["d.bin"], 2, "d.bin: has a format that is not read (.bin); `--file-format text` translates its lines."),
        (["a.po", "--file-format", "doc"], 2, "`file_format` must be one of android, asciidoc, csv,"),
        (["a.po", "--format", "tsv"], 2, "`format` must be text for documents, but is 'tsv' instead."),
        (["a.po", "-o", "a.po"], 2, "`--output` and the input are the same file, a.po."),
        (["a.po", "--errors", "replace"], 2, "`errors` has no effect with documents; leave it out."),
        (["a.po", "--alignments"], 2, "`alignments` has no effect with documents; leave it out."),
        (["a.po", "--n-best", "2", "--strategy", "beam"], 2, "`n_best` has no effect with documents; leave it out."),
        (["d.de", "--no-fuzzy"], 2, "`fuzzy` has no effect with lines of text; leave it out."),
        (["d.de", "--all"], 2, "--all has no effect with lines of text; leave it out."),
        (["none.po"], 66, "none.po: no such file."),
        (["in.de", "--alignments"], 2, "`--alignments` needs `--format tsv` or `--format jsonl`"),
        (["in.de", "--strategy", "beam", "--n-best", "2"], 2, "`--n-best` needs `--format tsv`"),
        (["in.de", "--n-best", "2", "--format", "tsv"], 2, "`n_best` has no effect without `strategy` beam"),
        (
            ["in.de", "--strategy", "beam", "--n-best", "6", "--format", "tsv"],
            2,
            "`n_best` must be at most 5, but is 6",
        ),
        (
            ["in.de", "--strategy", "beam", "--glossary", "terms.tsv"],
            2,
            "`glossary` does not go together with beam search",
        ),
        (["in.de", "--glossary", "none.tsv"], 66, "none.tsv"),
        (["in.de", "--glossary", "terms.tsv", "-o", "terms.tsv"], 2, "`--output` and `--glossary` are the same file"),
    ],
    "trace": [
        ([" "], 2, "`TEXT` must be a sentence"),
        ([], 65, "standard input: line 1 must be a sentence"),
        (["-"], 65, "standard input: line 1 must be a sentence"),
        (["x", "--strategy", "beam"], 2, "See `specmt trace --help`"),
        (["x", "--beta", "0"], 2, "`beta` must be at least 1"),
        (["x", "--threads", "0"], 2, "`threads` must be at least 1"),
        (["x", "--json", "--html", "-"], 2, "both write to standard output"),
        (["x", "--memory", "none.tsv"], 66, "none.tsv: no such file."),
        (["x", "--html", "none/trace.html"], 74, "none/trace.html: cannot be written"),
    ],
    "evaluate": [
        ([], 2, "There is nothing to evaluate"),
        (["a.de"], 2, "SRC must come with a reference REF, but a.de comes alone."),
        (["a.de", "none.en"], 66, "none.en: no such file."),
        (["a.de", "."], 66, ".: is a directory"),
        (["none.de", "a.en"], 66, "none.de: no such file."),
        (["a.de", "a.en", "short.en"], 65, "short.en: must have 5 lines, as a.de has, but has 4."),
        (["short.en", "a.en"], 65, "a.en: must have 4 lines, as short.en has, but has 5."),
        (["a.de", "empty.en"], 65, "empty.en: is empty."),
        (["empty.en", "a.en"], 65, "empty.en: is empty."),
        (["a.de", "latin.en"], 65, "latin.en: line 1 is not valid UTF-8 at byte offset 1"),
        (["--set", "a.de"], 2, "`set` must be [NAME=]SRC:REF[:REF…], but is 'a.de' instead."),
        (["a.de", "a.en", "--set", "a.de:a.en"], 2, "`set` must have different names, but 'a' comes twice"),
        (["-t", "wmt"], 2, "`test-set` must be one of `sacrebleu --list`, but is 'wmt' instead."),
        (["-t", "wmt14", "-l", "de-de"], 2, "`language-pair` must be one of "),
        (["a.de", "a.en", "--strategies", "greedy,fast"], 2, "`strategies` must name greedy, "),
        (["a.de", "a.en", "--strategies", "speculative:memory=no.tsv"], 66, "no.tsv: no such file."),
        (
            ["a.de", "a.en", "--strategies", "speculative:memory=pipe"],
            2,
            "`memory` must be a file, but pipe is a pipe.",
        ),
        (["a.de", "a.en", "--metrics", "bleu,comet"], 2, "`metrics` must be different ones of bleu, chrf, chrf++, ter"),
        (["a.de", "a.en", "--json", "x", "--plot", "x"], 2, "must be different files."),
        (["a.de", "a.en", "--json", "none/x"], 74, "none/x: cannot be written"),
        (["a.de", "a.en", "--plot", "none/x.png"], 74, "none/x.png: cannot be written"),
        (["a.de", "a.en", "--report", "a.en"], 74, "a.en: cannot be written (File exists)"),
        (["a.de", "a.en", "--threads", "0"], 2, "`threads` must be at least 1"),
        (["a.de", "a.en", "--repeats", "-1"], 2, "See `specmt evaluate --help`"),
        (["a.de", "a.en", "--limit", "0"], 2, "See `specmt evaluate --help`"),
        (["latin.de", "latin.de"], 65, f"{LATIN}convert it.\n"),
    ],
    "bench": [
        (["--rows", "0"], 2, "`rows` must be whole numbers from 1 on, such as 1,8, but is '0' instead."),
        (["--batch-sizes", ","], 2, "`batch_sizes` must be whole numbers"),
        (["--block-sizes", "2,x"], 2, "but is '2,x' instead."),
        (["--repeats", "0"], 2, "0 is not in the range"),
        (["--drafter", "lookup"], 2, "'lookup' is not one of"),
        (["--threads", "0"], 2, "`threads` must be at least 1"),
        (["--plot", "bench.txt"], 2, "`plot` must end in .png, .svg, .pdf, but is 'bench.txt' instead."),
        (["--plot", "none/x.png"], 74, "none/x.png: cannot be written"),
        (["--json", "none/x.json"], 74, "none/x.json: cannot be written"),
        (["none.de"], 66, "none.de: no such file."),
        (["blank.de"], 65, "blank.de: has no line of text."),
        (["--from", "fi"], 69, "No bundled model translates fi→…"),
        (["--model", "none"], 69, "none: is no model folder"),
        (["latin.de"], 65, f"{LATIN}convert it.\n"),
    ],
    "init": [(["none"], 66, "none: no such folder.")],
    "memory": [(["export", "in.de", "none.po"], 66, "none.po: no such file.")],
    "glossary": [(["suggest", "--pair", "in.de", "none.de"], 66, "none.de: no such file.")],
    "serve": [
        (["--api-keys", "latin.de"], 65, f"{LATIN}convert it.\n"),
        (["--api-keys", "empty.en"], 65, "no key"),
        (["--api-keys", "none"], 66, "none: no such file."),
        (["--model", "nowhere"], 69, "nowhere: is no model folder"),
        (["--model", "de-en", "--model", "de-en"], 2, "each pair"),
    ],
}
LATE = {
    "translate": [
        (["in.de", "--glossary", "terms.tsv"], 65, "line 1 must be source, tab, target, but has no tab"),
        (["-q", "latin.de", "-o", "out"], 65, f"{LATIN}convert it, or use `--errors replace`.\n"),
        (["in.de", "--model", "none", "-o", "out"], 69, "none: is no model folder"),
    ],
    "trace": [
        (["x", "--model", "none", "--html", "trace.html"], 69, "none: is no model folder"),
    ],
}
"""What is told when a model is loaded."""


@pytest.mark.parametrize(
    ("early", "command", "arguments", "code", "message"),
    [(table is EARLY, name, *row) for table in (EARLY, LATE) for name, rows in table.items() for row in rows],
)
def test_mistakes_are_told_before_a_model_is_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    early: bool,
    command: str,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    for load in ("specmt.translator.Translator.from_pretrained", "specmt.models.hub.load_model") if early else ():
        monkeypatch.setattr(load, lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.chdir(tmp_path)
    for name in ("sub", "empty"):
        Path(name).mkdir()
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    Path("link").symlink_to("in.de")
    os.mkfifo("pipe")
    before = sorted(tmp_path.rglob("*"))
    fails(capfd, [command, *arguments], code, message)
    assert sorted(tmp_path.rglob("*")) == before
    assert {name: Path(name).read_bytes() for name in FILES} == FILES
