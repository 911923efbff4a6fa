"""A document beside its neighbours, as the store holds both now."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragsieve.connectors.address import Fields
from ragsieve.connectors.contract import Row
from ragsieve.connectors.rowchecks import Kept, examine
from ragsieve.errors import ConfigError, MissingExtraError, StoreError
from ragsieve.evidence.alien import alien_run
from ragsieve.evidence.tokens import containment, is_word, jaccard, token_spans, tokens, word_set
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.records import KeptIncident, QueueFilter
from ragsieve.records import FloatArray
from ragsieve.remediation.custody import Custody
from ragsieve.service.desk.queue import members
from ragsieve.service.desk.texts import (
    SHOWN_CHARACTERS,
    MarkedText,
    Stretch,
    findings_in,
    marked,
    words_in,
)
from ragsieve.service.problems import where
from ragsieve.service.stores import Stores, UndeclaredStoreError, log

NEIGHBOURS = 16
_NEIGHBOUR_CHARACTERS = 2_000
_MOST_WORDS = 40
_MOST_MATES = 50
_FEWEST_STRANGERS = 3
_ALIEN_NATS = 8.0


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbour:
    """A document near the finding's.

    :param cosine: None where one of the vectors has no direction.
    :param hidden: whether retrieval does not return it now.
    :param mate: whether it is of the same campaign.
    :param case: id of a finding about it; None without one.
    :param jaccard: of the distinct words; ``containment`` of the smaller set in the other.
    :param only_here: words that the finding's document lacks; ``only_there`` the other way.
    """

    document_id: str
    cosine: float | None
    hidden: bool
    mate: bool
    case: str | None
    text: MarkedText
    jaccard: float
    containment: float
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """A document and what lies near it.

    :param text: the whole one where the store has it still, else the excerpt that was kept.
    :param complete: whether it is the whole.
    :param note: why something is missing; None when nothing is.
    :param stretch: whether a stretch is marked that was worked out from these neighbours.
    """

    text: MarkedText
    complete: bool
    note: str | None
    neighbours: tuple[Neighbour, ...]
    stretch: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Near:
    row: Row
    cosine: float | None
    mate: bool


def excerpt(kept: KeptIncident, note: str | None = None) -> Beside:
    """What the ledger itself holds of a document."""
    incident = kept.incident
    found = findings_in(incident.excerpt, incident.verdict)
    text = marked(incident.excerpt, found)
    complete = incident.characters is not None and incident.characters <= len(incident.excerpt)
    return Beside(text, complete, note, ())


def beside(stores: Stores, ledger: Ledger, tenant: str | None, kept: KeptIncident) -> Beside:
    """The document and its nearest neighbours by the store's own search.

    Hidden documents of the same campaign stand among them. Where the store cannot be asked, the
    excerpt stands alone, with the reason.
    """
    incident = kept.incident
    store, name = incident.place.store, incident.place.document_id
    mates: tuple[KeptIncident, ...] = ()
    if incident.campaign is not None:
        mates = members(ledger, tenant, incident.campaign)[:_MOST_MATES]
    ids = [
        one.incident.place.document_id
        for one in mates
        if one.incident.place.store == store and one.incident.place.document_id != name
    ]

    def job(custody: Custody) -> tuple[Row | None, bool, list[_Near]]:
        rows = custody.connector.fetch([name])
        if not rows:
            return None, False, []
        same = custody.content_sha256(rows[0]) == incident.content_sha256
        return rows[0], same, _near(custody, rows[0], ids)

    try:
        fields = stores.fields(store, tenant)
        row, same, near = stores.run(store, tenant, ledger, job)
    except UndeclaredStoreError:
        return excerpt(kept, "This service was not told of the store: only the excerpt is shown.")
    except (StoreError, ConfigError, MissingExtraError) as error:
        log.error("neighbours cannot be read: %s", where(error))
        return excerpt(kept, "The store cannot be asked at present: only the excerpt is shown.")
    if row is None:
        return excerpt(kept, "The store does not hold the document any more.")
    if not same:
        return excerpt(kept, "The store holds another content under this id by now.")
    return _made(ledger, tenant, kept, content_of(row, fields), near, fields)


def _near(custody: Custody, own: Row, mates: Sequence[str]) -> list[_Near]:
    if own.vector is None:
        return []
    found = {
        row.id: row
        for row, _ in custody.connector.search(own.vector, depth=NEIGHBOURS + 1)
        if row.id != own.id
    }
    served = list(found)[:NEIGHBOURS]
    extra = [row for row in custody.connector.fetch(list(mates)) if row.id not in served]
    # A search returns rows without their vectors in some stores.
    rows = {row.id: row for row in custody.connector.fetch(served)}
    near = [
        _Near(row, cosine(own.vector, row.vector), row.id in mates)
        for row in (*(rows.get(name, found[name]) for name in served), *extra)
    ]
    return sorted(near, key=lambda one: -2.0 if one.cosine is None else -one.cosine)


def _made(
    ledger: Ledger,
    tenant: str | None,
    kept: KeptIncident,
    content: str,
    near: Sequence[_Near],
    fields: Fields,
) -> Beside:
    incident = kept.incident
    texts = [content_of(one.row, fields) for one in near]
    words = word_set(content[:SHOWN_CHARACTERS])
    sets = [word_set(text[:SHOWN_CHARACTERS]) for text in texts]
    strangers = [found for one, found in zip(near, sets, strict=True) if not one.mate]
    alien = _alien(content, strangers)
    stretches = [*findings_in(content, incident.verdict), *alien]
    hidden = ledger.states.hidden(incident.place.store, tenant=tenant)
    neighbours = []
    for one, text, theirs in zip(near, texts, sets, strict=True):
        marks = (
            *words_in(text, words, limit=_NEIGHBOUR_CHARACTERS),
            *findings_in(text[:_NEIGHBOUR_CHARACTERS]),
        )
        neighbours.append(
            Neighbour(
                document_id=one.row.id,
                cosine=one.cosine,
                hidden=one.row.id in hidden,
                mate=one.mate,
                case=_case(ledger, tenant, incident.place.store, one.row.id),
                text=marked(text, marks, limit=_NEIGHBOUR_CHARACTERS),
                jaccard=jaccard(words, theirs),
                containment=containment(words, theirs),
                only_here=_some(text, theirs - words),
                only_there=_some(content, words - theirs),
            )
        )
    return Beside(marked(content, stretches), True, None, tuple(neighbours), bool(alien))


def _alien(content: str, strangers: Sequence[frozenset[str]]) -> tuple[Stretch, ...]:
    """The stretch whose words no neighbour outside the campaign has, if one stands out."""
    if len(strangers) < _FEWEST_STRANGERS:
        return ()
    counts = Counter(word for found in strangers for word in found)
    flags = np.array(
        [is_word(word) and word not in counts for word in tokens(content[:SHOWN_CHARACTERS])]
    )
    spans = token_spans(content[:SHOWN_CHARACTERS], SHOWN_CHARACTERS)
    if flags.size != len(spans) or not flags.size:
        return ()
    # Words that one neighbour alone has are what is usual here.
    alone = sum(1 for count in counts.values() if count == 1)
    run = alien_run(flags, alone / max(1, len(counts)))
    if run.ratio_nats < _ALIEN_NATS:
        return ()
    title = "words that no neighbour outside the campaign has crowd here"
    return (Stretch(spans[run.start].start, spans[run.stop - 1].stop, "stretch", title),)


def content_of(row: Row, fields: Fields) -> str:
    """What a reader is shown of a row."""
    dimension = 0 if row.vector is None else int(row.vector.size)
    kept = examine(row, fields, dimension)
    return kept.document.content if isinstance(kept, Kept) else row.text


def cosine(one: FloatArray, other: FloatArray | None) -> float | None:
    """Of two vectors; None where one has no direction or another length."""
    if other is None or one.shape != other.shape:
        return None
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    with np.errstate(all="ignore"):
        product = float(np.linalg.norm(first) * np.linalg.norm(second))
        value = float(first @ second) / product if product > 0 else float("nan")
    return value if np.isfinite(value) else None


def _some(text: str, words: frozenset[str]) -> tuple[str, ...]:
    """Some words, in the order of the text."""
    found = dict.fromkeys(word for word in tokens(text[:SHOWN_CHARACTERS]) if word in words)
    return tuple(found)[:_MOST_WORDS]


def _case(ledger: Ledger, tenant: str | None, store: str, document_id: str) -> str | None:
    wanted = QueueFilter(store=store, document_id=document_id)
    found = ledger.incidents.queue(wanted, tenant=tenant, limit=1).entries
    return found[0].incident.id if found else None
