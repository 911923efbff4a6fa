"""Column types that keep hostile text and times as they are, on every database."""

from __future__ import annotations

import datetime
import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ColumnElement

from ragsieve.errors import InputError

# What SQLite or PostgreSQL cannot hold, and the sign that escapes it.
_UNSTORABLE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:(\\)|([0-9a-f]{4}))")


class Escaped(sa.types.TypeDecorator[str]):
    r"""Any string: NUL and lone surrogates are stored as ``\`` and four digits."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The string as it is stored."""
        del dialect
        return None if value is None else _UNSTORABLE.sub(_escape, value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        """The string as it was given."""
        del dialect
        return None if value is None else _ESCAPED.sub(_unescape, str(value))


class Tenant(sa.types.TypeDecorator[str]):
    """A tenant's name; the single owner, who has none, is stored as the empty string.

    A column of this type is never null, so that one comparison separates all tenants.
    """

    impl = Escaped
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The name as it is stored."""
        if value == "":
            raise InputError("the tenant's name is empty; give a name, or None for a single owner")
        return Escaped().process_bind_param(value or "", dialect)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        """The name; None for the single owner."""
        return Escaped().process_result_value(value, dialect) or None


class UtcDateTime(sa.types.TypeDecorator[datetime.datetime]):
    """An aware time in UTC, also where the database knows no time zones."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(
        self, value: datetime.datetime | None, dialect: Dialect
    ) -> datetime.datetime | None:
        """The time in UTC, as the database takes it."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise InputError(f"{value}: a time without a time zone; use an aware datetime")
        value = value.astimezone(datetime.UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(
        self, value: datetime.datetime | None, dialect: Dialect
    ) -> datetime.datetime | None:
        """The time, aware, in UTC."""
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=datetime.UTC)
        return value.astimezone(datetime.UTC)


def of_tenant(table: sa.Table, tenant: str | None) -> ColumnElement[bool]:
    """Whether a row is this tenant's; None is the single owner, not everybody."""
    # A plain `== None` would ask for null, which no tenant is.
    owner: ColumnElement[bool] = table.c.tenant == sa.literal(tenant, Tenant())
    return owner


def _escape(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\{ord(found[0]):04x}"


def _unescape(found: re.Match[str]) -> str:
    return "\\" if found[1] else chr(int(found[2], 16))
