"""Find the documented objects of installed Python sources without importing any of them.

An object's name is where a reader would look for it. The rule has four parts: a private
component of a module path is cut together with what follows it, so that
``scipy.optimize._minimize.minimize`` is ``scipy.optimize.minimize``; implementation
packages stand for their public parent (``numpy.core``, ``numpy.lib.<module>``); the pure
Python twins of C modules stand for those (``_pydecimal`` is ``decimal``); everything else
is the path of the file.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragsieve.errors import InputError

# Tests, vendored copies, demonstrations, and packages that later Python versions dropped.
_SKIPPED = frozenset(
    "test tests testing idlelib lib2to3 distutils turtledemo ensurepip pydoc_data site-packages "
    "dist-packages lib-dynload __pycache__ __phello__ _lib _external _pyinstaller _typing _utils "
    "conftest misc "
    # Gone from Python 3.12 and 3.13, and in no way missed by a question.
    "aifc asynchat asyncore cgi cgitb chunk crypt imghdr imp mailcap msilib nntplib pipes smtpd "
    "sndhdr sunau telnetlib uu xdrlib".split()
)
_TWINS = {
    "_pydecimal": "decimal",
    "_pydatetime": "datetime",
    "_pyio": "io",
    "_collections_abc": "collections.abc",
    "_weakrefset": "weakref",
    "genericpath": "os.path",
    "posixpath": "os.path",
}
# Modules of numpy.lib that are public places themselves; its others implement numpy's.
_OWN_PLACES = frozenset(
    ["array_utils", "format", "introspect", "mixins", "recfunctions", "scimath", "stride_tricks"]
)
_IMPLEMENTATIONS = ("core", "_core", "matrixlib")
_IMPLEMENTED_ELSEWHERE = {"defchararray": "char", "records": "rec", "strings": "strings"}
# Packages that re-export their modules' members under their own name, but for these modules.
_FLAT = {"asyncio": (), "json": ("tool",), "unittest": ("mock",)}


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentedObject:
    """A module, class, function or method, with its docstring as written.

    :param name: the qualified public name.
    :param package: ``stdlib``, ``numpy`` or ``scipy``.
    """

    name: str
    package: str
    docstring: str


def documented_objects() -> Iterator[DocumentedObject]:
    """Every documented public object of the standard library, numpy and scipy.

    Ordered by package, then by the path of the module, then as written; names may repeat.

    :raises InputError: when a package's sources are not installed as files.
    """
    roots = (
        ("stdlib", Path(sysconfig.get_path("stdlib")), ()),
        ("numpy", _package_directory("numpy"), ("numpy",)),
        ("scipy", _package_directory("scipy"), ("scipy",)),
    )
    for package, directory, prefix in roots:
        for parts, path in sorted(_modules(directory, prefix)):
            place = _public_place(parts)
            if place is None:
                continue
            for name, docstring in _docstrings(path, place, whole=_is_public(parts)):
                yield DocumentedObject(name, package, docstring)


def _package_directory(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{name}: expected an installed package with sources, found none")
    return Path(next(iter(spec.submodule_search_locations)))


def _modules(directory: Path, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Path]]:
    for entry in directory.iterdir():
        if entry.stem in _SKIPPED or entry.name in _SKIPPED:
            continue
        if entry.is_dir():
            if (entry / "__init__.py").is_file():
                yield from _modules(entry, (*parts, entry.name))
        elif entry.name == "__init__.py":
            if parts:
                yield parts, entry
        elif entry.suffix == ".py":
            yield (*parts, entry.stem), entry


def _is_public(parts: Sequence[str]) -> bool:
    return not any(part.startswith("_") or part in _IMPLEMENTATIONS for part in parts[1:])


def _public_place(parts: tuple[str, ...]) -> str | None:
    """Where the objects of a module are found, or None when nobody looks for them."""
    if parts[0] in _TWINS:
        return _TWINS[parts[0]]
    if parts[0].startswith("_"):
        return None
    if parts[0] in _FLAT and len(parts) > 1 and parts[1] not in _FLAT[parts[0]]:
        return parts[0]
    if parts[0] == "numpy" and len(parts) > 1:
        return _numpy_place(parts)
    if parts[:2] == ("scipy", "stats") and parts[-1].startswith("_mstats"):
        return "scipy.stats.mstats"
    return _without_private(parts)


def _numpy_place(parts: tuple[str, ...]) -> str:
    if parts[1] in _IMPLEMENTATIONS:
        submodule = _IMPLEMENTED_ELSEWHERE.get(parts[-1])
        return f"numpy.{submodule}" if submodule else "numpy"
    if parts[1] == "lib" and parts[2:] and parts[2] not in _OWN_PLACES:
        return "numpy"
    return _without_private(parts)


def _without_private(parts: tuple[str, ...]) -> str:
    """The path up to its first private component; ``x.y.y`` and ``x.core`` are such too."""
    kept: list[str] = []
    for part in parts:
        if part.startswith("_") or part in _IMPLEMENTATIONS or (kept[1:] and part == kept[-1]):
            break
        kept.append(part)
    return ".".join(kept)


def _docstrings(path: Path, place: str, *, whole: bool) -> Iterator[tuple[str, str]]:
    """The public objects of one file; of a private module only what ``__all__`` exports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's strings
        tree = ast.parse(path.read_bytes())
    exported = _exported(tree)
    own = ast.get_docstring(tree)
    if own and whole:
        yield place, own
    for node in _statements(tree.body):
        if isinstance(node, ast.Expr):
            yield from _added(node.value, place)
        elif not whole and exported is not None and node.name not in exported:
            continue
        else:
            yield from _definition(node, place)


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _statements(body: Sequence[ast.stmt]) -> Iterator[Definition | ast.Expr]:
    for node in body:
        if isinstance(node, Definition | ast.Expr):
            yield node
        elif isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)


def _definition(node: Definition, place: str) -> Iterator[tuple[str, str]]:
    if node.name.startswith("_"):
        return
    name = f"{place}.{node.name}"
    if place == "scipy.stats":
        name = name.removesuffix("_gen")  # the class of a distribution, known by its instance
    docstring = ast.get_docstring(node)
    if docstring:
        yield name, docstring
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            if isinstance(member, Definition):
                yield from _definition(member, name)


def _added(call: ast.expr, place: str) -> Iterator[tuple[str, str]]:
    """What ``add_newdoc(place, name, text)`` and its two-argument form document."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return
    if call.func.id != "add_newdoc":
        return
    try:
        values = [ast.literal_eval(argument) for argument in call.args]
    except ValueError:
        return  # the text is computed
    member: object
    match values:
        case [str(), str(name), (str(member), str(text))] if "_" not in (name[0], member[0]):
            yield f"{place}.{name}.{member}", inspect.cleandoc(text)
        case [str(), str(name), str(text)] | [str(name), str(text)] if not name.startswith("_"):
            yield f"{place}.{name}", inspect.cleandoc(text)


def _exported(tree: ast.Module) -> frozenset[str] | None:
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if node.targets[0].id == "__all__":
            try:
                return frozenset(ast.literal_eval(node.value))
            except ValueError:
                return None  # computed
    return None
