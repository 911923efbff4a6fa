"""Where a collection is: one address, read strictly, shown without its secret."""

from __future__ import annotations

import dataclasses
import os.path
import unicodedata
from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from ragsieve.errors import ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """Under which metadata key, payload field or column a store keeps what a document has.

    :param text: None for the store's usual: Chroma's document, elsewhere what its module says.
    """

    text: str | None = None
    title: str = "title"
    source: str = "source"
    author: str = "author"
    tenant: str = "tenant"
    version: str = "version"
    created: str = "created"


@dataclasses.dataclass(frozen=True, slots=True)
class StoreAddress:
    """One collection of one store.

    :param scheme: which store, e.g. ``qdrant``.
    :param name: of the collection or table; for ``faiss`` the file of texts.
    :param host: of a server; None for a path, or where the driver is to decide.
    :param path: absolute, of an embedded store; None for a server.
    :param database: of a PostgreSQL server.
    :param fields: where the parts of a document stand.
    :param options: what else the scheme takes, sorted by name.
    :param user: of a server that wants one; not part of `public`.
    :param secret: password, key or token; not part of `public` nor of the representation.
    """

    scheme: str
    name: str
    host: str | None = None
    port: int | None = None
    path: str | None = None
    database: str | None = None
    fields: Fields = Fields()
    options: tuple[tuple[str, str], ...] = ()
    user: str | None = dataclasses.field(default=None, repr=False)
    secret: str | None = dataclasses.field(default=None, repr=False)

    @property
    def public(self) -> str:
        """The address without user and secret, the same for every way to write it.

        Parsing it gives this address back, user and secret aside.
        """
        scheme = _SCHEMES[self.scheme]
        query = dict(self.options)
        query.update(_changed(self.fields))
        if self.path is not None or self.database is not None:
            query[scheme.name] = self.name
        place = self.path if self.path is not None else f"/{self.database or self.name}"
        host = self.host or ""
        netloc = f"[{host}]" if ":" in host else host
        netloc += f":{self.port}" if self.port is not None else ""
        tail = f"?{urlencode(sorted(query.items()), safe='/', quote_via=quote)}" if query else ""
        return f"{self.scheme}://{netloc}{quote(place)}{tail}"

    def __str__(self) -> str:
        return self.public

    def option(self, name: str) -> str | None:
        """The option called ``name``; None where the address has none."""
        return dict(self.options).get(name)


@dataclasses.dataclass(frozen=True, slots=True)
class _Scheme:
    """What an address of one store may hold.

    :param name: the parameter that names the collection of an embedded store.
    :param server: whether there are servers; ``path`` whether there are embedded stores.
    :param options: parameters besides it, without those of `Fields`.
    """

    name: str
    example: str
    server: bool = True
    path: bool = True
    database: bool = False
    options: frozenset[str] = frozenset()


_SCHEMES: Mapping[str, _Scheme] = {
    "chroma": _Scheme(
        "collection",
        "chroma:///srv/chroma?collection=docs or chroma://localhost:8000/docs",
        options=frozenset({"ssl", "database", "account"}),
    ),
    "qdrant": _Scheme(
        "collection",
        "qdrant:///srv/qdrant?collection=docs or qdrant://localhost:6333/docs",
        options=frozenset({"https", "vector"}),
    ),
    "lancedb": _Scheme(
        "table",
        "lancedb:///srv/lance?table=docs",
        server=False,
        options=frozenset({"id", "vector", "distance", "tags"}),
    ),
    "postgresql": _Scheme(
        "table",
        "postgresql://user:password@localhost:5432/database?table=docs",
        path=False,
        database=True,
        options=frozenset({"id", "vector", "metadata", "schema", "host", "sslmode", "distance"}),
    ),
    "faiss": _Scheme(
        "texts",
        "faiss:///srv/docs.faiss?texts=/srv/docs.jsonl",
        server=False,
        options=frozenset({"id", "distance"}),
    ),
    "milvus": _Scheme(
        "collection",
        "milvus:///srv/milvus.db?collection=docs",
        options=frozenset({"id", "vector", "database", "https"}),
    ),
}
SCHEMES = tuple(_SCHEMES)
"""Every store that has an address, as its scheme."""

_FIELDS = frozenset(field.name for field in dataclasses.fields(Fields))
_LAST_PORT = 65_535


def parse_address(text: str) -> StoreAddress:
    """Read an address such as ``qdrant://localhost:6333/docs?title=headline``.

    A password, key or token stands before the host, percent-encoded:
    ``qdrant://:KEY@host:6333/docs``.

    :raises ConfigError: for an unknown scheme or parameter, or a part that is missing. The
        message never holds the address, which may hold a secret.
    """
    name, separator, _ = text.partition("://")
    if not separator or name not in _SCHEMES:
        raise ConfigError(
            f"store address: expected one that begins with {', '.join(f'{s}://' for s in SCHEMES)}"
        )
    scheme = _SCHEMES[name]
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in text):
        _refuse(name, "it holds control characters; percent-encode them")
    if "#" in text:
        _refuse(name, "'#' has no meaning here; percent-encode it as %23")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # The message of urllib quotes what it could not read, a password perhaps.
        _refuse(name, f"host or port cannot be read; a port is 0 to {_LAST_PORT}")
    given = _parameters(name, parts.query)
    fields = Fields(**{key: given.pop(key) for key in sorted(_FIELDS & set(given))})
    own = given.pop(scheme.name, None)
    unknown = sorted(set(given) - scheme.options)
    if unknown:
        known = ", ".join(sorted(scheme.options | _FIELDS | {scheme.name}))
        _refuse(name, f"unknown parameter {unknown[0]!r}; expected one of {known}")
    return _placed(
        StoreAddress(
            name,
            own or "",
            host=parts.hostname,
            port=port,
            fields=fields,
            options=tuple(sorted(given.items())),
            user=_decoded(name, parts.username) or None,
            secret=_decoded(name, parts.password) or None,
        ),
        parts,
        scheme,
    )


def truth_of(address: StoreAddress, option: str) -> bool:
    """An option that is ``true`` or ``false``; false where it is absent.

    :raises ConfigError: for any other word.
    """
    value = address.option(option)
    if value not in {None, "true", "false"}:
        _refuse(address.scheme, f"parameter {option!r}: expected true or false")
    return value == "true"


def _placed(address: StoreAddress, parts: SplitResult, scheme: _Scheme) -> StoreAddress:
    """The address with its path, or with what its path says on a server."""
    name = address.scheme
    place = _decoded(name, parts.path) or ""
    if scheme.database:
        database = place.removeprefix("/")
        if not database or "/" in database or not address.name:
            _refuse(name, f"expected a database and a parameter {scheme.name!r}")
        return dataclasses.replace(address, database=database)
    if address.host is None:
        if not scheme.path or not place.startswith("/") or place == "/" or not address.name:
            _refuse(name, f"expected an absolute path and a parameter {scheme.name!r}")
        if address.user or address.secret or address.port is not None:
            _refuse(name, "a path has no user, secret or port")
        # Two slashes at the start mean something of their own to POSIX, but not here.
        return dataclasses.replace(address, path="/" + os.path.normpath(place).lstrip("/"))
    if not scheme.server:
        _refuse(name, "it has no servers; expected an absolute path after '://'")
    collection = place.strip("/")
    if address.name or not collection or "/" in collection:
        _refuse(name, f"expected the {scheme.name} after the host, as in host:port/NAME")
    return dataclasses.replace(address, name=collection)


def _parameters(scheme: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        if not query:
            return {}
        _refuse(scheme, "expected parameters as NAME=VALUE&NAME=VALUE, in UTF-8")
    found: dict[str, str] = {}
    for key, value in pairs:
        if key in found:
            _refuse(scheme, f"parameter {key!r} stands twice")
        if not value or any(unicodedata.category(character) == "Cc" for character in value):
            _refuse(scheme, f"parameter {key!r}: expected a value without control characters")
        found[key] = value
    return found


def _decoded(scheme: str, part: str | None) -> str | None:
    if part is None:
        return None
    try:
        text = unquote(part, errors="strict")
    except UnicodeDecodeError:
        _refuse(scheme, "a percent-encoded part is not UTF-8")
    if "\0" in text:
        _refuse(scheme, "it holds a NUL character")
    return text


def _changed(fields: Fields) -> dict[str, str]:
    usual = dataclasses.asdict(Fields())
    mine = dataclasses.asdict(fields)
    return {key: value for key, value in mine.items() if value != usual[key]}


def _refuse(scheme: str, problem: str) -> NoReturn:
    raise ConfigError(
        f"{scheme} address: {problem}; for example {_SCHEMES[scheme].example}"
    ) from None
