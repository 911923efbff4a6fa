"""Exposures: how often a document was retrieved, and the last retrievals it stood in."""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from ragsieve.cases import Place, QueryContext
from ragsieve.ledger import codec
from ragsieve.ledger.columns import of_tenant
from ragsieve.ledger.pens import Desk, Pen, chunks, inserting
from ragsieve.ledger.reports import Exposure, Retrieval
from ragsieve.ledger.schema import exposures, retrievals, retrieved

KEPT = 1_000
"""Retrievals kept of each store unless told otherwise; counters are kept of all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exposures:
    """Retrievals of documents. They are counted, not audited."""

    desk: Desk

    def add(
        self,
        store: str,
        contexts: Sequence[QueryContext],
        *,
        tenant: str | None = None,
        keep: int = KEPT,
    ) -> None:
        """Count every document of some retrievals, and keep the last ``keep`` of the store.

        Of a document that stands twice in one ranking one retrieval is counted.
        """
        if not contexts:
            return
        with self.desk.writing(counters=True) as pen:
            names = {one.document_id for context in contexts for one in context.ranking}
            keys = {name: codec.place_key(Place(store, name, tenant)) for name in names}
            shown = [sorted({keys[one.document_id] for one in c.ranking}) for c in contexts]
            _count(pen, collections.Counter(key for own in shown for key in own), tenant)
            if keep > 0:
                _keep(pen, store, contexts[-keep:], shown[-keep:], tenant)
            _forget(pen, store, tenant, keep)

    def of(self, place: Place, *, days: int | None = None) -> Exposure:
        """How often a place was retrieved.

        :param days: counts today and the days before it, this many in all; None for all time.
        """
        asked = sa.select(exposures.c.day, exposures.c.retrievals).where(
            of_tenant(exposures, place.tenant), exposures.c.place_key == codec.place_key(place)
        )
        if days is not None:
            since = self.desk.now().date() - datetime.timedelta(days=days - 1)
            asked = asked.where(exposures.c.day >= since)
        with self.desk.reading() as connection:
            rows = connection.execute(asked.order_by(exposures.c.day))
            by_day = tuple((row[0], int(row[1])) for row in rows)
        return Exposure(place, sum(count for _, count in by_day), by_day)

    def recent(self, place: Place, *, limit: int = 20) -> tuple[Retrieval, ...]:
        """The last kept retrievals a place stood in, newest first."""
        asked = (
            sa.select(retrievals)
            .join(retrieved, retrieved.c.retrieval_id == retrievals.c.id)
            .where(
                of_tenant(retrievals, place.tenant),
                retrieved.c.place_key == codec.place_key(place),
            )
            .order_by(retrievals.c.id.desc())
            .limit(limit)
        )
        with self.desk.reading() as connection:
            return tuple(
                Retrieval(
                    row[retrievals.c.store],
                    row[retrievals.c.at],
                    codec.context_of(row[retrievals.c.context]),
                )
                for row in connection.execute(asked).mappings()
            )


def _count(pen: Pen, counts: collections.Counter[str], tenant: str | None) -> None:
    statement = inserting(pen.connection, exposures)
    statement = statement.on_conflict_do_update(
        index_elements=["place_key", "day"],
        set_={"retrievals": exposures.c.retrievals + statement.excluded.retrievals},
    )
    day = pen.at.date()
    for group in chunks(sorted(counts.items())):
        pen.connection.execute(
            statement,
            [
                {"place_key": key, "day": day, "tenant": tenant, "retrievals": count}
                for key, count in group
            ],
        )


def _keep(
    pen: Pen,
    store: str,
    contexts: Sequence[QueryContext],
    shown: Sequence[Sequence[str]],
    tenant: str | None,
) -> None:
    """Retrievals with the places that stood in them."""
    made = retrievals.insert().returning(retrievals.c.id, sort_by_parameter_order=True)
    for group in chunks(zip(contexts, shown, strict=True)):
        rows = [
            {
                "tenant": tenant,
                "store": store,
                "at": pen.at,
                "context": codec.context_text(context),
            }
            for context, _ in group
        ]
        numbers = pen.connection.scalars(made, rows).all()
        places = (
            {"retrieval_id": number, "place_key": key}
            for number, (_, own) in zip(numbers, group, strict=True)
            for key in own
        )
        for some in chunks(places):
            pen.connection.execute(retrieved.insert(), some)


def _forget(pen: Pen, store: str, tenant: str | None, keep: int) -> None:
    own = sa.and_(of_tenant(retrievals, tenant), retrievals.c.store == store)
    oldest = (
        sa.select(retrievals.c.id)
        .where(own)
        .order_by(retrievals.c.id.desc())
        .offset(max(keep, 0))
        .limit(1)
    )
    last = pen.connection.scalar(oldest)
    if last is not None:
        pen.connection.execute(retrievals.delete().where(own, retrievals.c.id <= last))
