"""What reviewers do, for the interface and the desk alike: nothing is written on what has changed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from ragsieve.cases import Opinion, Remediation, Truth
from ragsieve.errors import InputError, StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import IllegalMoveError, StaleStateError
from ragsieve.ledger.records import (
    KeptIncident,
    TruthCheck,
)
from ragsieve.ledger.reports import RollbackPreview
from ragsieve.ledger.scans import new_scan_id
from ragsieve.remediation.custody import BATCH_DOCUMENTS, Custody
from ragsieve.remediation.recovery import recover
from ragsieve.remediation.rollback import RolledBack, roll_back
from ragsieve.service.access import LOCAL, Principal
from ragsieve.service.acts import ACT, UNDO, Act, ActRecord, Changed, Member, acts_of, read_act
from ragsieve.service.keys import Role
from ragsieve.service.moving import COMPENSATION, move, moves, reverse
from ragsieve.service.problems import Refused
from ragsieve.service.seeing import (
    ConflictError,
    Difference,
    Shown,
    actor_of,
    difference,
    item_version,
    words_of,
)
from ragsieve.service.stores import Stores

MOST_TOGETHER = BATCH_DOCUMENTS
"""Findings in one act: as many as a store is asked to change at once, so all of them or none."""

LONGEST_REASON = 2_000
_WAIT_SECONDS = 60.0


class Reviewing:
    """The acts of reviewers on one ledger and the stores this service was told of.

    A store is changed first and the opinion written last, so that whatever dies in between
    leaves a finding that still waits for its review. Acts of one tenant are done in turn; other
    processes are kept out by the versions in the ledger.

    :param changed: called with a tenant after each act that may have changed what is hidden.
    """

    def __init__(
        self,
        ledger: Ledger,
        stores: Stores,
        *,
        changed: Callable[[str | None], None] = lambda _tenant: None,
    ) -> None:
        self.ledger, self.stores = ledger, stores
        self._changed = changed
        self._turns: dict[str | None, threading.Lock] = {}
        self._guard = threading.Lock()

    def act(self, who: Principal, act: Act, findings: Sequence[Shown], *, reason: str) -> ActRecord:
        """Say an opinion on findings and, for two of the acts, hide or serve their documents.

        All of them or none, save documents that hold another content by now or are gone: those
        are left alone and named.

        :raises ConflictError: when one of them changed since it was seen.
        :raises NotKeptError: when this tenant has no such finding.
        :raises UndeclaredStoreError: when a store is not this service's to change.
        :raises StoreError: when a store or the ledger fails; findings wait as before.
        """
        if not act.opinion:
            raise InputError("deleting has a way of its own")
        _check(findings, reason)
        with self._turn(who.tenant):
            ledger = self.ledger.acting_as(actor_of(who))
            kept = self._as_seen(ledger, who.tenant, findings)
            wanted = [one for one in kept if moves(act, one)]
            changed, left = move(self.stores, ledger, who.tenant, act, wanted, reason)
            try:
                versions = {one.incident_id: one.version for one in findings}
                ledger.reviews.add_many(versions, act.opinion, reason=reason, tenant=who.tenant)
            except StaleStateError:
                # Another process was quicker by a hair.
                reverse(self.stores, ledger, who.tenant, changed, COMPENSATION)
                self._as_seen(ledger, who.tenant, findings)
                raise
            return self._noted(ledger, who, act, kept, changed, left, reason)

    def check_truth(
        self, who: Principal, finding: Shown, truth: Truth, *, reason: str
    ) -> TruthCheck:
        """Write what somebody found out about a content; no score ever does.

        :raises ConflictError: when the finding changed since it was seen.
        :raises NotKeptError: when this tenant has no such finding.
        """
        _check([finding], reason)
        with self._turn(who.tenant):
            ledger = self.ledger.acting_as(actor_of(who))
            self._as_seen(ledger, who.tenant, [finding])
            return ledger.truth.add(
                finding.incident_id,
                truth,
                reason=reason,
                expected_version=finding.version,
                tenant=who.tenant,
            )

    def delete(
        self, who: Principal, findings: Sequence[Shown], *, reason: str, phrase: str
    ) -> ActRecord:
        """Remove hidden documents from their stores; a second pair of eyes, and only an admin's.

        :param phrase: `delete_phrase` of these findings, written out.
        :raises Refused: for another role, another phrase, or whoever hid one of them.
        :raises ConflictError: when one of them changed since it was seen.
        """
        _check(findings, reason)
        if not who.may(Role.ADMIN):
            raise Refused(403, "only an admin may delete documents")
        if phrase != delete_phrase(len(findings)):
            raise Refused(
                422, f"expected the words: {delete_phrase(len(findings))}", field="confirm"
            )
        with self._turn(who.tenant):
            ledger = self.ledger.acting_as(actor_of(who))
            kept = self._as_seen(ledger, who.tenant, findings)
            for place, one in enumerate(kept):
                if one.item is None or one.item.state is not Remediation.QUARANTINED:
                    raise Refused(
                        409, "only hidden documents are deleted", field=f"findings[{place}]"
                    )
                # On a machine without keys there is nobody else.
                if who != LOCAL and one.item.changed_by == actor_of(who):
                    raise Refused(
                        409, "somebody else than who hid it must delete", field=f"findings[{place}]"
                    )
            changed, left = move(self.stores, ledger, who.tenant, Act.DELETE, kept, reason)
            return self._noted(ledger, who, Act.DELETE, kept, changed, left, reason)

    def last(self, who: Principal) -> ActRecord | None:
        """The actor's last act that is not undone yet; None when there is none among the newest."""
        return next(
            (
                one
                for one in acts_of(self.ledger, who.tenant, actor_of(who))
                if not self.undone(one.id, who.tenant)
            ),
            None,
        )

    def undone(self, act_id: str, tenant: str | None) -> bool:
        """Whether an act was undone."""
        found = self.ledger.audit.entries(tenant=tenant, action=UNDO, subject=act_id, limit=1)
        return bool(found)

    def undo(self, who: Principal, act_id: str, *, reason: str) -> ActRecord:
        """Take an act back: documents as they were, and the opinion before it.

        Opinions are only ever added: where there was none before, the finding needs information
        again.

        :raises NotKeptError: when this tenant has no such act.
        :raises Refused: when somebody else did it, unless an admin asks.
        :raises IllegalMoveError: when it was undone before.
        :raises ConflictError: when somebody changed one of its findings since.
        """
        _check_reason(reason)
        with self._turn(who.tenant):
            ledger = self.ledger.acting_as(actor_of(who))
            done = read_act(ledger, act_id, who.tenant)
            if done.actor != actor_of(who) and not who.may(Role.ADMIN):
                raise Refused(403, "somebody else did this; an admin may undo it")
            if self.undone(act_id, who.tenant):
                raise IllegalMoveError("this was undone before; nothing was written")
            self._untouched(ledger, who.tenant, done)
            reverse(self.stores, ledger, who.tenant, done.changed, reason)
            if done.act.opinion:
                for opinion in dict.fromkeys(one.opinion for one in done.members):
                    versions = {
                        one.incident_id: one.version + 1
                        for one in done.members
                        if one.opinion == opinion
                    }
                    ledger.reviews.add_many(
                        versions,
                        opinion or Opinion.NEEDS_INFO,
                        reason=f"undone: {reason}",
                        tenant=who.tenant,
                    )
            ledger.audit.add(UNDO, act_id, {"reason": reason}, tenant=who.tenant)
            self._changed(who.tenant)
            return done

    def preview(self, who: Principal, scan_id: str) -> RollbackPreview:
        """What rolling back a scan would change.

        :raises NotKeptError: when this tenant has no such scan.
        """
        return self.ledger.rollback_preview(scan_id, tenant=who.tenant)

    def roll_back(
        self,
        who: Principal,
        scan_id: str,
        *,
        reason: str,
        expected: int,
        include_contested: bool = False,
    ) -> RolledBack:
        """Bring back what a scan hid.

        :param expected: documents that the preview promised, contested ones included when asked
            for.
        :raises NotKeptError: when this tenant has no such scan.
        :raises ConflictError: when it would be another number by now.
        """
        _check_reason(reason)
        with self._turn(who.tenant):
            ledger = self.ledger.acting_as(actor_of(who))
            found = ledger.rollback_preview(scan_id, tenant=who.tenant)
            count = len(found.brings_back) + (len(found.contested) if include_contested else 0)
            if count != expected:
                words = f"{count} documents would come back, {expected} were expected"
                raise ConflictError([Difference(0, scan_id, words)])

            def job(custody: Custody) -> RolledBack:
                recover(custody)
                return roll_back(
                    custody, scan_id, reason=reason, include_contested=include_contested
                )

            done = self.stores.run(found.scan.start.store, who.tenant, ledger, job)
            self._changed(who.tenant)
            return done

    @contextlib.contextmanager
    def _turn(self, tenant: str | None) -> Iterator[None]:
        with self._guard:
            lock = self._turns.setdefault(tenant, threading.Lock())
        if not lock.acquire(timeout=_WAIT_SECONDS):
            raise StoreError("another review is still at work; try again")
        try:
            yield
        finally:
            lock.release()

    def _as_seen(
        self, ledger: Ledger, tenant: str | None, findings: Sequence[Shown]
    ) -> list[KeptIncident]:
        """The findings, if they are as they were seen.

        :raises ConflictError: when one is not.
        """
        kept = [ledger.incidents.get(one.incident_id, tenant=tenant) for one in findings]
        stale = {
            one.incident.place.store
            for one in kept
            if one.item is not None and one.item.state.pending
        }
        for store in stale:
            # What a process that died left there; younger intents are left to whoever is at work.
            self.stores.run(store, tenant, ledger, recover)
        if stale:
            kept = [ledger.incidents.get(one.incident_id, tenant=tenant) for one in findings]
        found = [
            Difference(place, seen.incident_id, difference(ledger, now, seen))
            for place, (seen, now) in enumerate(zip(findings, kept, strict=True))
            if now.version != seen.version
            or item_version(now) != seen.item_version
            or (now.item is not None and now.item.state.pending)
        ]
        if found:
            raise ConflictError(found)
        return kept

    def _untouched(self, ledger: Ledger, tenant: str | None, done: ActRecord) -> None:
        """Refuse to undo over what somebody did since.

        :raises ConflictError: when somebody did.
        """
        found: list[Difference] = []
        added = 1 if done.act.opinion else 0
        for place, one in enumerate(done.members):
            now = ledger.incidents.get(one.incident_id, tenant=tenant)
            if now.version != one.version + added:
                words = difference(ledger, now, Shown(one.incident_id, one.version + added))
                found.append(Difference(place, one.incident_id, words))
        for changed in done.changed:
            item = ledger.states.get(changed.place(tenant))
            if item is None or item.version != changed.version:
                found.append(
                    Difference(
                        0, done.id, "nothing is known of it" if item is None else words_of(item)
                    )
                )
        if found:
            raise ConflictError(found)

    def _noted(
        self,
        ledger: Ledger,
        who: Principal,
        act: Act,
        kept: Sequence[KeptIncident],
        changed: Sequence[Changed],
        left: Sequence[str],
        reason: str,
    ) -> ActRecord:
        record = ActRecord(
            id=new_scan_id(),
            act=act,
            actor=actor_of(who),
            at=ledger.now(),
            reason=reason,
            members=tuple(
                Member(one.incident.id, one.version, one.incident.opinion) for one in kept
            ),
            changed=tuple(changed),
            left=tuple(left),
        )
        ledger.audit.add(ACT, record.id, record.payload(), tenant=who.tenant)
        self._changed(who.tenant)
        return record


def delete_phrase(count: int) -> str:
    """What whoever deletes must write out."""
    return f"delete {count} documents"


def _check(findings: Sequence[Shown], reason: str) -> None:
    _check_reason(reason)
    if not 0 < len(findings) <= MOST_TOGETHER:
        raise InputError(f"expected 1 to {MOST_TOGETHER} findings, found {len(findings)}")
    if len({one.incident_id for one in findings}) != len(findings):
        raise InputError("a finding is named twice; name each once")


def _check_reason(reason: str) -> None:
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise InputError(f"expected a reason of 1 to {LONGEST_REASON} characters")
