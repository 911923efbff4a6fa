"""Who may import whom, and what no module may do."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ragsieve
from ragsieve.errors import MissingExtraError

ROOT = Path(ragsieve.__file__).parent
GROUND = {
    "errors",
    "records",
    "outcomes",
    "cases",
    "ports",
    "display",
    "_jsonl",
    "_atomic",
    "_extras",
}
ALLOWED = {
    "evidence": GROUND,
    "features": GROUND | {"evidence"},
    "graphs": GROUND | {"evidence"},
    "cluster": GROUND | {"evidence", "features"},
    "detectors": GROUND | {"evidence", "features"},
    "defense": GROUND | {"evidence", "features", "detectors"},
    "files": GROUND | {"evidence", "features"},
    "featurestore": GROUND | {"evidence"},
    "live": GROUND | {"evidence", "features", "detectors", "files"},
    "bench": GROUND | {"evidence", "features", "graphs", "detectors", "live", "retrieval"},
    "backends": GROUND,
    "testing": GROUND,
    "chat": GROUND,
    "declared": GROUND,
    "trishield": GROUND | {"declared", "evidence", "features", "detectors", "defense", "chat"},
    "explain": GROUND | {"evidence"},
    "connectors": GROUND,
    "ledger": GROUND,
    "policy": GROUND | {"declared"},
    "calibration": GROUND | {"policy"},
    "findings": GROUND,
    "remediation": GROUND | {"connectors", "ledger", "policy"},
    "retrieval": GROUND | {"evidence"},
    "settings": GROUND | {"detectors", "defense", "chat", "trishield", "featurestore"},
    "assembly": GROUND
    | {
        "evidence",
        "features",
        "featurestore",
        "detectors",
        "defense",
        "files",
        "live",
        "backends",
        "cluster",
        "settings",
        "chat",
        "trishield",
    },
}
ALLOWED["asking"] = ALLOWED["assembly"] | {"assembly"}
ALLOWED["integrations"] = ALLOWED["asking"] | {"asking"}
ALLOWED["auditing"] = ALLOWED["asking"] | {
    "asking",
    "connectors",
    "ledger",
    "policy",
    "findings",
    "remediation",
    "explain",
}
ALLOWED["service"] = ALLOWED["auditing"] | {"auditing", "calibration", "retrieval", ""}
ALLOWED["lab"] = ALLOWED["asking"] | {"asking", "explain", "retrieval", "testing", ""}
ALLOWED["cli"] = ALLOWED["lab"] | ALLOWED["service"] | {"lab", "bench", "graphs", "service"}
LABEL_WORDS = ("poison", "label")
# Prometheus calls the dimensions of a metric so; the service judges nothing by itself.
LABEL_ROOMS = {"lab", "cli", "service"}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield path, parts


def name_of(parts):
    return ".".join(part for part in ("ragsieve", *parts) if part != "__init__")


def imports_of(path, *, top_level_only):
    tree = ast.parse(path.read_text("utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("path", "parts"), list(modules()), ids=lambda v: v.name if isinstance(v, Path) else ""
)
def test_imports_flow_one_way(path, parts):
    room = parts[0]
    if room in {"__init__", "__main__"}:
        return
    allowed = ALLOWED.get(room, GROUND) | {room}
    used = {
        [*name.split("."), ""][1]
        for name in imports_of(path, top_level_only=False)
        if name.split(".")[0] == "ragsieve"
    }
    known = {parts[0] for _, parts in modules()} | {""}
    assert (used & known) - allowed == set()


def test_evidence_needs_numpy_alone():
    standard = set(sys.stdlib_module_names) | {"numpy", "scipy", "regex", "ragsieve"}
    for path, parts in modules():
        if parts[0] == "evidence":
            assert {n.split(".")[0] for n in imports_of(path, top_level_only=False)} <= standard


def test_no_import_cycle():
    names = {name_of(parts): path for path, parts in modules()}
    graph = {
        name: {
            used for used in imports_of(path, top_level_only=True) if used in names and used != name
        }
        for name, path in names.items()
    }
    done, open_ = set(), []

    def visit(name):
        assert name not in open_, f"cycle: {' -> '.join([*open_[open_.index(name) :], name])}"
        if name in done:
            return
        open_.append(name)
        for used in graph[name]:
            visit(used)
        open_.pop()
        done.add(name)

    for name in graph:
        visit(name)
    assert len(done) == len(names)


def test_no_module_is_too_long():
    long = [str(path) for path, _ in modules() if len(path.read_text("utf-8").splitlines()) > 400]
    assert long == []


def test_only_settings_reads_the_environment():
    for path, _ in modules():
        text = path.read_text("utf-8")
        assert "os.environ" not in text, path
        assert "getenv(" not in text, path


def test_nothing_prints():
    for path, _ in modules():
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        assert not any(isinstance(c.func, ast.Name) and c.func.id == "print" for c in calls), path


def test_label_words_stay_in_the_lab():
    for path, parts in modules():
        if parts[0] in LABEL_ROOMS:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "id", getattr(node, "attr", getattr(node, "arg", None)))
            if isinstance(name, str):
                assert not any(word in name.lower() for word in LABEL_WORDS), (path, name)


HELP = """import runpy, sys
sys.argv = ["ragsieve", "--help"]
try: runpy.run_module("ragsieve", run_name="__main__")
except SystemExit: pass
"""


@pytest.mark.parametrize("code", ["import ragsieve", HELP])
def test_light_start(code):
    heavy = "torch transformers matplotlib jinja2 safetensors gguf scipy.stats".split()
    check = f"{code}\nimport sys\nprint('HEAVY', [m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("HEAVY []")


def docstrings(tree):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            yield id(node.body[0].value)
        # A string of its own, below an attribute, is documentation too.
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)


def words_of(tree):
    """Every name, attribute, argument, definition, import and string of a module."""
    skipped = set(docstrings(tree))
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                yield value
        text = getattr(node, "value", None)
        if isinstance(node, ast.Constant) and isinstance(text, str) and id(node) not in skipped:
            yield text


def test_label_words_stand_in_no_name_and_no_string_outside_the_lab():
    seen = 0
    for path, parts in modules():
        if parts[0] in LABEL_ROOMS:
            continue
        found = list(words_of(ast.parse(path.read_text("utf-8"))))
        seen += len(found)
        assert [w for w in found if any(bad in w.lower() for bad in LABEL_WORDS)] == [], path
    assert seen > 5_000


def test_the_search_for_label_words_finds_them():
    source = '''"""poison"""
import a.label
from b import c as poisoned
def label_of(poison): "labels"; return row["poison"], row.label, f"{x} label"
'''
    found = [w for w in words_of(ast.parse(source)) if "label" in w or "poison" in w]
    assert sorted(found) == sorted(
        ["a.label", "poisoned", "label_of", "poison", "poison", "label", " label"]
    )


def test_every_room_has_its_rule():
    rooms = {parts[0] for _, parts in modules()} - {"__init__", "__main__"}
    assert rooms == GROUND | set(ALLOWED)


def test_the_ground_floor_stands_on_nothing_else():
    allowed = set(sys.stdlib_module_names) | {"numpy", "ragsieve"}
    for path, parts in modules():
        if parts[0] in GROUND:
            used = {name.split(".")[0] for name in imports_of(path, top_level_only=False)}
            assert used <= allowed, path


def test_only_the_command_line_talks_to_the_terminal():
    for path, parts in modules():
        text = path.read_text("utf-8")
        if parts[0] != "cli":
            assert "sys.stdout" not in text, path
            assert "sys.stderr" not in text, path


@pytest.mark.parametrize(
    "name", [name_of(parts) for _, parts in modules() if parts != ("__main__",)]
)
def test_every_module_is_documented_and_imports_alone(name):
    try:
        module = importlib.import_module(name)
    except MissingExtraError:
        # Subclasses of a framework's classes cannot be defined without the framework.
        assert name.startswith("ragsieve.integrations.")
        return
    assert (module.__doc__ or "").strip().endswith((".", "?")) or "::" in module.__doc__


def test_every_test_checks_something():
    idle = []
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                checks = any(
                    isinstance(inner, ast.Assert)
                    or getattr(inner, "attr", getattr(inner, "id", "")).startswith(
                        ("raises", "fail", "assert_")
                    )
                    for inner in ast.walk(node)
                )
                idle += [] if checks else [f"{path.name}::{node.name}"]
    assert idle == []
