"""The queue: findings by campaign, the most pressing campaign first."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode

from ragsieve.cases import Opinion, Remediation
from ragsieve.errors import InputError
from ragsieve.findings.plain import leading
from ragsieve.findings.taxonomy import taxonomy
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.records import KeptIncident, QueueFilter
from ragsieve.ledger.records import QueuePage as Part
from ragsieve.records import Level
from ragsieve.service.reviewing import MOST_TOGETHER

PAGE = 20
"""Campaigns on one page."""

MOST_WALKED = 5_000
"""Findings looked through for one page of campaigns."""

Kind = TypeVar("Kind", Remediation, Opinion, Level)

_CHUNK = 500
_LONGEST = 1_024
_MOST_DAYS = 3_650
_MOST_DIGITS = 9
_TEXTS = ("store", "source", "author", "evidence", "scan", "document")
_YES_NO = {"yes": True, "no": False}
FIELDS = (*_TEXTS, "days", "state", "opinion", "level", "reviewed", "known")
"""Names of the filter's fields, as they stand in an address."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A filter as somebody filled it in.

    :param given: the fields that are not empty.
    :param page: from 1.
    """

    given: Mapping[str, str]
    page: int = 1

    @property
    def fields(self) -> dict[str, str]:
        """Every field, the empty ones too."""
        return {name: self.given.get(name, "") for name in FIELDS}

    def filter(self, now: datetime.datetime) -> QueueFilter:
        """What the ledger is asked for.

        :raises InputError: for a field that cannot be read.
        """
        given = self.given
        days = _number(given["days"]) if "days" in given else None
        return QueueFilter(
            store=given.get("store"),
            source=given.get("source"),
            author=given.get("author"),
            evidence=given.get("evidence"),
            evidence_at_least=1e-12 if "evidence" in given else 0.0,
            scan_id=given.get("scan"),
            document_id=given.get("document"),
            decided_after=None if days is None else now - datetime.timedelta(days=days),
            state=_one_of(Remediation, given.get("state"), "state"),
            opinion=_one_of(Opinion, given.get("opinion"), "opinion"),
            level=_one_of(Level, given.get("level"), "level"),
            reviewed=_yes_no(given.get("reviewed"), "reviewed"),
            known=_yes_no(given.get("known"), "known"),
        )

    def address(self, page: int) -> str:
        """Of another page with the same filter."""
        return "/desk?" + urlencode([*self.given.items(), ("page", str(page))])


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A campaign, or a finding that stands alone.

    :param campaign: None for one that stands alone.
    :param first: its most pressing finding among those that the filter lets through.
    :param matching: findings that the filter lets through; ``total`` all of them.
    """

    campaign: str | None
    first: KeptIncident
    matching: int
    total: int
    waiting: int
    hidden: int
    exposure: int
    why: str

    @property
    def address(self) -> str:
        """Its page."""
        if self.campaign is None:
            return f"/desk/cases/{quote(self.first.incident.id, safe='')}"
        return "/desk/campaigns?" + urlencode({"name": self.campaign}, errors="replace")


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePage:
    """One page of campaigns.

    :param findings: that the filter lets through in all.
    :param waiting: findings of the tenant without an opinion.
    :param more: whether a next page exists.
    :param walked_out: whether campaigns behind `MOST_WALKED` findings were not looked at.
    """

    groups: tuple[Group, ...]
    findings: int
    waiting: int
    page: int
    more: bool
    walked_out: bool


def asked_of(given: Mapping[str, str]) -> Asked:
    """A filter from the fields of an address.

    :raises InputError: for a field that is too long or no number.
    """
    fields = {name: given[name].strip() for name in FIELDS if given.get(name, "").strip()}
    for name, value in fields.items():
        if len(value) > _LONGEST:
            raise InputError(f"{name}: expected at most {_LONGEST:,} characters")
    page = _number(given["page"]) if given.get("page") else 1
    asked = Asked(fields, page)
    asked.filter(datetime.datetime.now(datetime.UTC))
    return asked


def queue_page(ledger: Ledger, tenant: str | None, asked: Asked) -> QueuePage:
    """Campaigns in the order of their most pressing finding, risk x exposure."""
    wanted = asked.filter(ledger.now())
    last = asked.page * PAGE
    groups: dict[str, list[KeptIncident]] = {}
    total = walked = 0
    while walked < MOST_WALKED:
        part = ledger.incidents.queue(wanted, tenant=tenant, limit=_CHUNK, offset=walked)
        total = part.total
        walked += len(part.entries)
        for one in part.entries:
            groups.setdefault(_key(one), []).append(one)
        if len(part.entries) < _CHUNK or len(groups) > last:
            break
    names = list(groups)[last - PAGE : last]
    waiting = ledger.incidents.queue(QueueFilter(reviewed=False), tenant=tenant, limit=0).total
    return QueuePage(
        groups=tuple(_group(ledger, tenant, wanted, groups[name]) for name in names),
        findings=total,
        waiting=waiting,
        page=asked.page,
        more=len(groups) > last,
        walked_out=walked < total and len(groups) <= last,
    )


def members(ledger: Ledger, tenant: str | None, campaign: str) -> tuple[KeptIncident, ...]:
    """The findings of a campaign, the most pressing first; as many as one act may take."""
    return _whole(ledger, tenant, campaign).entries


def why(one: KeptIncident) -> str:
    """What a finding rests on most, in words."""
    first = leading(one.incident.verdict)
    return taxonomy().rule(None if first is None else first.name).title


def _whole(ledger: Ledger, tenant: str | None, campaign: str) -> Part:
    wanted = QueueFilter(campaign=campaign)
    return ledger.incidents.queue(wanted, tenant=tenant, limit=MOST_TOGETHER)


def _group(
    ledger: Ledger, tenant: str | None, wanted: QueueFilter, found: list[KeptIncident]
) -> Group:
    first = found[0]
    campaign = first.incident.campaign
    own: tuple[KeptIncident, ...] = (first,)
    total = matching = 1
    if campaign is not None:
        whole = _whole(ledger, tenant, campaign)
        own, total = whole.entries, whole.total
        matching = total
        if wanted != QueueFilter():
            some = dataclasses.replace(wanted, campaign=campaign)
            matching = ledger.incidents.queue(some, tenant=tenant, limit=0).total
    return Group(
        campaign=campaign,
        first=first,
        matching=matching,
        total=total,
        waiting=sum(one.incident.opinion is None for one in own),
        hidden=sum(one.incident.remediation.hides for one in own),
        exposure=sum(one.exposure for one in own),
        why=why(first),
    )


def _key(one: KeptIncident) -> str:
    campaign = one.incident.campaign
    # Not the name alone: a finding may be called as some campaign is.
    return f"finding {one.incident.id}" if campaign is None else f"campaign {campaign}"


def _number(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if not digits or not 1 <= int(text) <= _MOST_DAYS:
        raise InputError(f"expected a number from 1 to {_MOST_DAYS:,}")
    return int(text)


def _yes_no(text: str | None, field: str) -> bool | None:
    if text is None:
        return None
    if text not in _YES_NO:
        raise InputError(f"{field}: expected yes or no")
    return _YES_NO[text]


def _one_of(kinds: type[Kind], text: str | None, field: str) -> Kind | None:
    if text is None:
        return None
    try:
        return kinds(text)
    except ValueError:
        raise InputError(f"{field}: expected one of {', '.join(kinds)}") from None
