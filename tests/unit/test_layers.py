"""DESIGN §7: layers import downwards only, nothing in a circle, and PyTorch where nothing else will do."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import click
import pytest

import specmt
from specmt.cli.main import cli
from tests.commands import MACHINE, ROOT, execute
from tests.unit.test_import_marian import spm, write_hugging_face  # noqa: F401  (a fixture)

LAYERS = {
    "specmt": 0,
    "specmt.errors": 0,
    "specmt.types": 0,
    "specmt.options": 0,
    "specmt.files": 0,
    "specmt.languages": 0,
    "specmt.names": 0,
    "specmt.signals": 0,
    "specmt._signals": 0,
    "specmt.text": 1,
    "specmt.formats": 1,
    "specmt.engine": 1,
    "specmt.decoding": 2,
    "specmt.models": 2,
    "specmt.training": 3,
    "specmt.requirements": 3,
    "specmt.feeder": 3,
    "specmt.pairs": 3,
    "specmt.project": 3,
    "specmt.proposal": 4,
    "specmt.translator": 4,
    "specmt.again": 3,
    "specmt.documents": 4,
    "specmt.evaluation": 5,
    "specmt.serve": 5,
    "specmt.jobs": 5,
    "specmt.update": 5,
    "specmt.check": 6,
    "specmt.cli": 7,
    "specmt.__main__": 8,
}

WITH_TORCH = ("specmt.engine.torch", "specmt.models.reference", "specmt.models.interop.pickled", "specmt.training")
"""What may need PyTorch; the rest may import these in functions alone."""

HEAVY = {"torch", "fairseq2", "safetensors.torch"}


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    at_start: bool
    """Whether it runs when the module is imported, not in a function or for type checkers only."""

    in_function: bool = False


def find_modules() -> dict[str, Path]:
    modules = {}
    for path in sorted((ROOT / "specmt").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


MODULES = find_modules()


def find_imports(node: ast.AST, *, at_start: bool = True) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, at_start) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None and child.level == 0, f"line {child.lineno}: a relative import"
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield Import(submodule if submodule in MODULES else child.module, child.lineno, at_start)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from find_imports(ast.Module(child.body, []), at_start=False)
            yield from find_imports(ast.Module(child.orelse, []), at_start=at_start)
        else:
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                inside = find_imports(child, at_start=False)
                yield from (replace(each, in_function=True) for each in inside)
            else:
                yield from find_imports(child, at_start=at_start)


@cache
def imports_of(module: str) -> list[Import]:
    return list(find_imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def unit_of(module: str) -> str:
    """Returns the module or subpackage directly below ``specmt`` that a module belongs to."""
    return ".".join(module.split(".")[:2])


def modules_of(*units: str) -> list[str]:
    return [name for name in MODULES if unit_of(name) in units]


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "specmt"


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@cache
def loaded_by(module: str) -> set[str]:
    """Returns everything that importing a module imports, as far as our own modules say."""
    loaded: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            package = ".".join(parts[:end])  # the packages above it run first
            if package not in loaded:
                loaded.add(package)
                if package in MODULES:
                    waiting += [each.module for each in imports_of(package) if each.at_start]
    return loaded


def test_imports_go_downwards_only() -> None:
    for module, each in ((name, each) for name in MODULES for each in imports_of(name) if is_ours(each.module)):
        unit, other = unit_of(module), unit_of(each.module)
        layer = LAYERS[unit]
        where = f"{MODULES[module].relative_to(ROOT)}:{each.line}: {module} (L{layer}) imports {each.module}"
        assert LAYERS[other] <= layer, f"{where} of L{LAYERS[other]}, above it"
        if LAYERS[other] == layer != 0 and other != unit:
            # Type annotations, and a choice made at run time, may name a sibling; text and engine never.
            assert layer > 1 and not each.at_start, f"{where} of the same layer"


def test_no_files_import_each_other_in_a_circle() -> None:
    """As long as they do not, one module after the other can be taken that imports none left, for types too."""
    imported = {name: {each.module for each in imports_of(name) if not each.in_function} for name in MODULES}
    left = {name: modules & {*MODULES} - {name} for name, modules in imported.items()}
    while free := [name for name, imports in left.items() if not imports & left.keys()]:
        for name in free:
            del left[name]
    assert not left, {name: imports & left.keys() for name, imports in left.items()}


def test_decoding_knows_no_models() -> None:
    """Not for type checkers either: it says itself what it asks of one."""
    imports = [(module, each) for module in modules_of("specmt.decoding") for each in imports_of(module)]
    assert imports and not [each for _, each in imports if unit_of(each.module) == "specmt.models"]


@pytest.mark.parametrize(
    ("modules", "refused"),
    [
        ([name for name in MODULES if not is_in(name, WITH_TORCH)], HEAVY),
        (modules_of("specmt.engine", "specmt.decoding"), {"fairseq2"}),
        (modules_of("specmt.cli"), {"torch", "fairseq2", "sacrebleu", "matplotlib", "fastapi", "uvicorn"}),
    ],
    ids=["without PyTorch", "engine and decoding", "commands"],
)
def test_what_takes_long_is_loaded_where_nothing_else_will_do(modules: list[str], refused: set[str]) -> None:
    assert modules and not {name: found for name in modules if (found := loaded_by(name) & refused)}


def test_the_graph_of_imports_is_seen() -> None:
    """Guards the tests above against passing because they see nothing."""
    assert {"fairseq2", "torch", "specmt.types"} <= loaded_by("specmt.training.verifier")
    assert "torch" in loaded_by("specmt.engine.torch.backend")
    assert {"numpy", "specmt.engine.window", "specmt.engine.arrays"} <= loaded_by("specmt.decoding.loop")
    assert "specmt.engine.torch.backend" in {each.module for each in imports_of("specmt.engine.backends")} | {
        f"{each.module}.backend" for each in imports_of("specmt.engine.backends") if not each.at_start
    }


def test_engine_and_decoding_import_where_fairseq2_cannot_be() -> None:
    modules = modules_of("specmt.engine", "specmt.decoding")
    code = f"""
import sys
sys.modules["fairseq2"] = sys.modules["fairseq2n"] = None
from importlib import import_module
for module in {modules}:
    import_module(module)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


# Processes in which PyTorch cannot be imported, and whoever tries is noted

HOOK = """
import os, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "fairseq2", "fairseq2n"):
            with open(os.environ["ASKED"], "a") as file:
                file.write(name + "\\n")
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""

COMMANDS = """
import shlex, sys
from specmt.cli.main import run

model, *lines = sys.stdin.read().splitlines()
for line in lines:
    assert run(shlex.split(line)) == 0, line

from specmt.options import DecodingOptions
from specmt.serve.app import create_app
from specmt.serve.service import Service, Source
from specmt.translator import Translator
from starlette.testclient import TestClient

load = lambda: Translator.from_pretrained(model, device="cpu", dtype="int8", threads=1)
with TestClient(create_app(Service([Source(("de", "en"), "0" * 64, load)], DecodingOptions()))) as client:
    while client.get("/readyz").status_code != 200:
        pass
    answer = client.post("/translate", json={"q": "Der Hund", "source": "de", "target": "en"})
    assert answer.status_code == 200, answer.text
    assert client.get("/metrics").status_code == 200
"""

LINES = """\
--help
translate --help
train --help
train drafter --help
prepare --help
distill --help
shortlist --help
serve --help
translate {text} {model}
translate {text} {model} --drafter self --alignments --format jsonl
translate {text} {model} --strategy beam
translate {text} {model} --temperature 1 --tree sampled
trace 'Der Hund sieht das Haus' {model}
evaluate {text} {text} {model} --strategies greedy --metrics bleu --latency-lines 1 --repeats 1
bench {text} {model} --quick --rows 1,2 --batch-sizes 1 --block-sizes 2 --repeats 1
models list
models show {path}
models verify {path}
translate {text} -o {folder}/out.en {model} --shard 1/2
translate {text} -o {folder}/out.en {model} --shard 2/2
jobs merge {folder}/out.en
translate {text} -o {folder}/both.en {model} --processes 2
update {page} --into {folder}/page.en.md {model}
accept {folder}/page.en.md
check {page} {folder}/page.en.md --fail-on never
memory export --pair {page} {folder}/page.en.md
glossary suggest --pair {page} {folder}/page.en.md
init {folder}
import marian {foreign} {folder}/imported
translate {text} --model {folder}/imported --device cpu --threads 1
"""


@pytest.mark.usefixtures("needs_kernels")
def test_commands_run_where_pytorch_cannot_be(tiny_model: Path, tmp_path: Path, spm: dict[str, Path]) -> None:  # noqa: F811
    """One after the other in one process: who tries to import PyTorch is noted each time."""
    assert {line.split()[0] for line in LINES.splitlines()} == {"--help", *cli.list_commands(click.Context(cli))}
    hook, text, page, asked, foreign = (tmp_path / each for each in ("hook", "text.de", "page.md", "asked", "foreign"))
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HOOK)
    text.write_text("Der Hund sieht das Haus.\neine Katze\n")
    page.write_text("# eine Katze\n\nDer Hund sieht das Haus.\n")
    write_hugging_face(foreign, spm)
    model = shlex.join(["--model", str(tiny_model), *MACHINE])
    lines = LINES.format(path=tiny_model, model=model, text=text, page=page, folder=tmp_path, foreign=foreign)
    given = f"{tiny_model}\n{lines}".encode()
    result = execute(sys.executable, "-c", COMMANDS, data=given, PYTHONPATH=f"{hook}:{ROOT}", ASKED=str(asked))
    assert result.returncode == 0, result.stderr.decode()
    assert not asked.exists(), asked.read_text()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="what this finds cannot be imported here")
def test_patterns_are_none_that_python_3_10_cannot_read() -> None:
    """Possessive quantifiers and groups that are not gone back to came later."""
    names = [each.name for each in pkgutil.walk_packages(specmt.__path__, "specmt.")]
    modules = [importlib.import_module(name) for name in names if name.split(".")[1] in ("check", "formats", "text")]
    patterns = [each for module in modules for each in vars(module).values() if isinstance(each, re.Pattern)]
    assert len(patterns) > 300
    later = re.compile("POSSESSIVE|ATOMIC")
    assert not [each.pattern for each in patterns if later.search(str(re._parser.parse(each.pattern, each.flags)))]  # type: ignore[attr-defined]
