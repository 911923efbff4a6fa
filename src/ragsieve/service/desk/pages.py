"""From views to pages: templates that escape everything, and the files they name."""

from __future__ import annotations

import dataclasses
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import jinja2
from fastapi import Response
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from ragsieve.display import visible
from ragsieve.findings.plain import MEANING
from ragsieve.service.desk import plots
from ragsieve.service.desk.case import clock, state_words
from ragsieve.service.desk.texts import badged
from ragsieve.service.sessions import Session

_KINDS = {
    "desk.css": "text/css; charset=utf-8",
    "desk.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "htmx-LICENSE.txt": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HERE = "ragsieve.service.desk"


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """Renders the desk's templates.

    Whatever a template prints is escaped and made visible first; text in which badges stand is
    printed by ``badged``, which no text can imitate.
    """

    environment: jinja2.Environment

    def page(
        self, name: str, session: Session | None, *, status: int = 200, **values: Any
    ) -> Response:
        """A page, or a part of one."""
        found = self.environment.get_template(f"{name}.html.j2").render(
            session=session, meaning=MEANING, bar=plots.WIDTH, **values
        )
        return HTMLResponse(found, status_code=status)


def load_pages() -> Pages:
    """The templates of this package."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    environment.filters |= {
        "badged": badged,
        "clock": clock,
        "state": state_words,
        "quoted": quoted,
    }
    return Pages(environment)


def static_files() -> dict[str, tuple[bytes, str]]:
    """The desk's own files with their kinds, by name; there are no others."""
    folder = files(_HERE).joinpath("static")
    return {name: (folder.joinpath(name).read_bytes(), kind) for name, kind in _KINDS.items()}


def quoted(text: str) -> str:
    """A string as a part of an address; half a surrogate pair, which no address holds, is lost."""
    return quote(text, safe="", errors="replace")


def _final(value: Any) -> Any:
    """What is printed: nothing invisible, whatever a template forgot."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value
