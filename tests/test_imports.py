"""The import table: who may import whom, read from the source of every module."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    ROOT / "kvref",
    ROOT / "kvgpu",
    ROOT / "strategies" / "kvstrategies",
    ROOT / "examples",
)
MODULES = {
    path.relative_to(folder.parent).as_posix(): path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*.py"))
}

# The first entry that a module's path begins with says what it may import besides the standard
# library. A package is named by its first part; a module of ours may be narrower.
TABLE: dict[str, set[str]] = {
    "kvref/cli/": {"kvref", "msgspec", "rich", "typer"},
    "kvref/targets/": {"kvref", "msgspec", "kvgpu", "torch", "numpy"},
    "kvref/pytest_plugin.py": {"kvref", "kvstrategies", "pytest"},
    "kvref/testing/": {"kvref", "msgspec", "pytest"},
    "kvref/": {"kvref", "msgspec"},
    "kvgpu/kernels/": {"kvgpu", "torch", "triton"},
    "kvgpu/": {"kvgpu", "numpy", "sortedcontainers", "torch"},
    "kvstrategies/tensors.py": {"kvref", "kvstrategies", "hypothesis", "torch"},
    "kvstrategies/suite.py": {"kvref", "kvstrategies", "hypothesis", "pytest"},
    "kvstrategies/": {"kvref", "kvstrategies", "hypothesis"},
    # An example shows what a user would write: nothing of ours but what it is an example of.
    "examples/llama/": {"examples", "kvgpu", "torch", "transformers"},
    "examples/own_manager/block_cache.py": set(),
    "examples/own_manager/": {"block_cache", "first_try", "kvref", "kvstrategies"},
    "examples/": set(),
}
# Packages of ours that a package may not reach, though it may reach their parent.
NARROWER = dict.fromkeys(
    (
        "kvref/", "kvref/pytest_plugin.py", "kvref/testing/", "kvstrategies/",
        "kvstrategies/suite.py",
    ),
    "kvref.targets",
)  # fmt: skip

# Imports of what a variable names: what a user named, and the package's own modules.
BY_NAME = {("kvref/registry.py", "module"), ("kvstrategies/__init__.py", "_HOMES[name]")}


def imported(source: str) -> set[str]:
    """The full name of every module that the source imports, at any depth; "." if relative."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(
            node.func, "id", getattr(node.func, "attr", "")
        ) in ("__import__", "import_module"):
            names |= {ast.unparse(argument) for argument in node.args[:1]}
    return names


def violations(module: str, source: str) -> list[str]:
    """What the module imports and may not, as far as its source says."""
    entry = next(prefix for prefix in TABLE if module.startswith(prefix))
    wrong = []
    for name in sorted(imported(source)):
        first = name.partition(".")[0].strip("'\"")
        if first in sys.stdlib_module_names:
            continue
        if (module, name) in BY_NAME:
            continue
        narrower = NARROWER.get(entry)
        if first not in TABLE[entry] or (narrower and f"{name}.".startswith(f"{narrower}.")):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_the_table_allows(module):
    assert violations(module, MODULES[module].read_text()) == []


def test_every_package_is_read():
    assert {module.partition("/")[0] for module in MODULES} == {folder.name for folder in FOLDERS}
    assert len(MODULES) > 30
    assert all((folder / "__init__.py").exists() for folder in FOLDERS)


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("kvref/oracle.py", "import torch", ["torch"]),
        ("kvref/oracle.py", "def f():\n    import torch.nn as nn", ["torch.nn"]),
        (
            "kvref/oracle.py",
            "from kvgpu.radix_core import RadixCore",
            ["kvgpu.radix_core.RadixCore"],
        ),
        ("kvref/oracle.py", "import typer, os", ["typer"]),
        ("kvref/judge.py", "from kvref.targets import kvgpu", ["kvref.targets.kvgpu"]),
        ("kvref/judge.py", "from .oracle import Oracle", [".oracle.Oracle"]),
        ("kvref/judge.py", "import importlib\nimportlib.import_module('kvgpu')", ["'kvgpu'"]),
        ("kvref/judge.py", "__import__('torch')", ["'torch'"]),
        ("kvref/cli/fuzz.py", "import torch", ["torch"]),
        ("kvref/cli/fuzz.py", "import rich, typer", []),
        ("kvref/targets/kvgpu.py", "import kvgpu, torch, numpy", []),
        ("kvref/targets/kvgpu.py", "import hypothesis", ["hypothesis"]),
        ("kvref/pytest_plugin.py", "import hypothesis", ["hypothesis"]),
        ("kvref/testing/items.py", "import kvref.targets.kvgpu", ["kvref.targets.kvgpu"]),
        ("kvgpu/radix_core.py", "import kvref", ["kvref"]),
        ("kvgpu/radix_core.py", "from hypothesis import given", ["hypothesis.given"]),
        ("kvgpu/mha_pool.py", "import triton", ["triton"]),
        ("kvgpu/kernels/store.py", "import triton.language as tl, torch", []),
        ("kvgpu/kernels/store.py", "import kvstrategies", ["kvstrategies"]),
        ("kvstrategies/sequences.py", "import torch", ["torch"]),
        ("kvstrategies/sequences.py", "import kvgpu", ["kvgpu"]),
        ("kvstrategies/sequences.py", "import kvref.targets.kvgpu", ["kvref.targets.kvgpu"]),
        ("kvstrategies/tensors.py", "import torch, hypothesis", []),
        ("kvstrategies/tensors.py", "import kvgpu", ["kvgpu"]),
        ("examples/llama/serving.py", "import kvgpu, torch, transformers", []),
        ("examples/llama/serving.py", "import kvref", ["kvref"]),
        ("kvgpu/requests.py", "import examples.llama", ["examples.llama"]),
    ],
)
def test_a_planted_violation_is_named(module, source, found):
    assert violations(module, source) == found


def loaded_by(statement: str) -> set[str]:
    """The packages that a new process has loaded after the statement."""
    program = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    path = ":".join(map(str, (ROOT, ROOT / "strategies")))
    result = subprocess.run(
        [sys.executable, "-c", program],
        check=True, capture_output=True, text=True, env={"PYTHONPATH": path, "PATH": ""},
    )  # fmt: skip
    return set(result.stdout.split())


HEAVY = {"torch", "numpy", "triton", "kvgpu", "hypothesis"}
CORE = ", ".join(
    module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for module in MODULES
    if module.startswith("kvref/")
    and not module.startswith(("kvref/cli/", "kvref/targets/", "kvref/__main__"))
    and module != "kvref/pytest_plugin.py"
)


def test_the_pytest_plugin_imports_nothing_that_pytest_has_not():
    assert loaded_by("import pytest, kvref.pytest_plugin") - loaded_by("import pytest") == {"kvref"}


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import kvref", HEAVY | {"typer", "rich", "msgspec"}),
        (
            "import pytest, kvref.pytest_plugin",
            HEAVY | {"typer", "rich", "msgspec", "kvstrategies"},
        ),
        (f"import {CORE}", HEAVY | {"typer", "rich"}),
        ("import kvref.cli", HEAVY),
        ("import kvstrategies", HEAVY - {"hypothesis"}),
        ("import kvgpu", {"kvref", "kvstrategies", "hypothesis", "triton", "msgspec"}),
    ],
    ids=[
        "kvref",
        "the pytest plugin",
        "every module of kvref",
        "kvref.cli",
        "kvstrategies",
        "kvgpu",
    ],
)
def test_what_is_imported_in_the_end(statement, unwanted):
    assert loaded_by(statement) & unwanted == set()
