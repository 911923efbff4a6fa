"""No read returns another tenant's rows, whatever they hold in common."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsieve.cases import Opinion, Truth
from ragsieve.ledger.faults import NotKeptError
from ragsieve.ledger.records import QueueFilter, ScanCounts
from unit.ledger.building import STORE, context, hide, incident, place, sha, start, target

TENANTS = [None, "acme", "Acme", "acme\\", "none", "None", " "]
COUNT = itertools.count()

# The same ids, contents and stores are used by all tenants; only the scans' ids differ.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(TENANTS),
        st.sampled_from(["d1", "d2"]),
        st.sampled_from(["one text", "another"]),
    ),
    min_size=1,
    max_size=5,
)


def everything(ledger, tenant):  # noqa: C901
    """All that the reads return for one tenant, as (kind, what identifies it)."""
    queue = ledger.incidents.queue(QueueFilter(superseded=None), tenant=tenant, limit=1_000)
    for one in queue.entries:
        yield "incident", one.incident.scan_id, one.incident.place.tenant
        assert ledger.incidents.get(one.incident.id, tenant=tenant) == one
        if one.item is not None:
            yield "item", one.item.scan_id, one.item.place.tenant
        for said in ledger.reviews.of(one.incident.id, tenant=tenant):
            yield "review", said.reason, tenant
    for scan in ledger.scans.all(tenant=tenant, limit=1_000):
        yield "scan", scan.start.id, scan.start.tenant
    for item in ledger.states.items(tenant=tenant):
        yield "item", item.scan_id, item.place.tenant
    for entry in ledger.audit.entries(tenant=tenant, limit=10_000):
        yield "audit", entry.seq, entry.payload["tenant"]
    for text in ("one text", "another"):
        known = ledger.history(sha(text), tenant=tenant)
        for past in known.verdicts:
            yield "verdict", past.scan_id, past.place.tenant
        for change in known.changes:
            yield "change", change.scan_id, change.place.tenant
        for lay in known.placements:
            yield "placement", lay.first_scan, lay.place.tenant
        for said in known.reviews:
            yield "review", said.reason, tenant
        for check in known.truth_checks:
            yield "check", check.reason, tenant


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_reads_return_ones_own(ledger, steps):
    owners = {}
    retrieved = {tenant: ledger.exposures.of(place("d1", tenant)).total for tenant in TENANTS}
    for tenant, name, text in steps:
        scan_id = f"scan-{next(COUNT)}"
        owners[scan_id] = tenant
        ledger.scans.begin(start(scan_id, tenant=tenant))
        found = incident(name, text, scan_id, tenant)
        ledger.incidents.record([found])
        hide(ledger, target(name, text, tenant), scan_id=scan_id)
        ledger.reviews.add(found.id, Opinion.CONFIRMED, reason=scan_id, tenant=tenant)
        ledger.truth.add(found.id, Truth.FALSE, reason=scan_id, tenant=tenant)
        ledger.exposures.add(STORE, [context(["d1"])], tenant=tenant)
        ledger.scans.finish(scan_id, ScanCounts(1, 1, 0), tenant=tenant)
        retrieved[tenant] += 1
        for other in TENANTS:
            if other != tenant:
                with pytest.raises(NotKeptError):
                    ledger.incidents.get(found.id, tenant=other)
                with pytest.raises(NotKeptError):
                    ledger.scans.get(scan_id, tenant=other)
                with pytest.raises(NotKeptError):
                    ledger.rollback_preview(scan_id, tenant=other)
                with pytest.raises(NotKeptError):
                    ledger.reviews.add(found.id, Opinion.BENIGN, reason="?", tenant=other)
                assert ledger.reviews.of(found.id, tenant=other) == ()
                assert ledger.truth.of(found.id, tenant=other) == ()
    for tenant in TENANTS:
        seen = list(everything(ledger, tenant))
        assert {owner for _, _, owner in seen} <= {tenant}
        shown = {name for kind, name, _ in seen if kind not in {"audit"}}
        assert {name for name in shown if name in owners} == {
            name for name, owner in owners.items() if owner == tenant
        }
        assert ledger.exposures.of(place("d1", tenant)).total == retrieved[tenant]
        assert len(ledger.exposures.recent(place("d1", tenant), limit=10_000)) == retrieved[tenant]
        assert ledger.states.hidden(STORE, tenant=tenant) == {
            item.place.document_id for item in ledger.states.items(tenant=tenant)
        }
    numbers = [
        entry.seq
        for tenant in TENANTS
        for entry in ledger.audit.entries(tenant=tenant, limit=10_000)
    ]
    assert sorted(numbers) == list(range(1, ledger.audit.head().seq + 1))


def test_opinions_do_not_cross(ledger):
    for tenant in ("acme", "zenith"):
        ledger.scans.begin(start(f"{tenant}-1", tenant=tenant))
    first = incident(scan_id="acme-1", tenant="acme")
    ledger.incidents.record([first])
    ledger.reviews.add(first.id, Opinion.BENIGN, reason="r", tenant="acme")
    other = incident(scan_id="zenith-1", tenant="zenith")
    ledger.incidents.record([other])
    assert ledger.incidents.get(other.id, tenant="zenith").earlier_opinion is None
    assert not ledger.incidents.get(first.id, tenant="acme").superseded
