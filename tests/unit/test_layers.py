"""DESIGN §7: layers import downwards only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = {
    "specmt": 0,
    "specmt.errors": 0,
    "specmt.types": 0,
    "specmt.options": 0,
    "specmt.files": 0,
    "specmt.signals": 0,
    "specmt._signals": 0,
    "specmt.text": 1,
    "specmt.formats": 1,
    "specmt.engine": 1,
    "specmt.decoding": 2,
    "specmt.models": 2,
    "specmt.training": 3,
    "specmt.evaluation": 3,
    "specmt.requirements": 3,
    "specmt.feeder": 3,
    "specmt.pairs": 3,
    "specmt.translator": 4,
    "specmt.documents": 4,
    "specmt.serve": 5,
    "specmt.jobs": 5,
    "specmt.cli": 6,
    "specmt.__main__": 7,
}


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    at_start: bool
    """Whether it runs when the module is imported, not in a function or for type checkers only."""


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
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from find_imports(child, at_start=at_start and not is_function)


def imports_of(module: str) -> list[Import]:
    return list(find_imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def unit_of(module: str) -> str:
    """Returns the module or subpackage directly below ``specmt`` that a module belongs to."""
    return ".".join(module.split(".")[:2])


def is_ours(module: str) -> bool:
    return module.split(".")[0] == "specmt"


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


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_downwards_only(module: str) -> None:
    unit = unit_of(module)
    layer = LAYERS[unit]
    for each in filter(lambda each: is_ours(each.module), imports_of(module)):
        other = unit_of(each.module)
        where = f"{MODULES[module].relative_to(ROOT)}:{each.line}: {module} (L{layer}) imports {each.module}"
        assert LAYERS[other] <= layer, f"{where} of L{LAYERS[other]}, above it"
        if LAYERS[other] == layer != 0 and other != unit:
            # Type annotations, and a choice made at run time, may name a sibling; text and engine never.
            assert layer > 1 and not each.at_start, f"{where} of the same layer"


@pytest.mark.parametrize("module", [name for name in MODULES if unit_of(name) in ("specmt.engine", "specmt.decoding")])
def test_engine_and_decoding_do_not_need_fairseq2(module: str) -> None:
    assert "fairseq2" not in loaded_by(module)


@pytest.mark.parametrize("module", [name for name in MODULES if unit_of(name) == "specmt.cli"])
def test_commands_start_without_torch(module: str) -> None:
    assert not loaded_by(module) & {"torch", "fairseq2", "sacrebleu", "matplotlib", "fastapi", "uvicorn"}


def test_the_graph_of_imports_is_seen() -> None:
    """Guards the tests above against passing because they see nothing."""
    assert {"fairseq2", "torch", "specmt.types"} <= loaded_by("specmt.training.verifier")
    assert "torch" in loaded_by("specmt.decoding.loop")


def test_engine_and_decoding_import_where_fairseq2_cannot_be() -> None:
    modules = [name for name in MODULES if unit_of(name) in ("specmt.engine", "specmt.decoding")]
    code = f"""
import sys
sys.modules["fairseq2"] = sys.modules["fairseq2n"] = None
from importlib import import_module
for module in {modules}:
    import_module(module)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
