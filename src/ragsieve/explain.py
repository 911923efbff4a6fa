"""Evidence in words: what was seen, against which background, and what it does not mean."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ragsieve.display import visible
from ragsieve.evidence.alien import AlienDetail, RunTailDetail
from ragsieve.evidence.alignment import AlignmentTail
from ragsieve.evidence.anchors import AnchorEvidence
from ragsieve.evidence.concentration import OriginDetail
from ragsieve.evidence.copying import CopyDetail
from ragsieve.evidence.density import NeighborhoodDetail
from ragsieve.evidence.gap import GapDetail
from ragsieve.evidence.hidden import HiddenText
from ragsieve.evidence.scripts import ScriptProfile, ScriptTail, ShareTail
from ragsieve.evidence.surprisal import PeakSurprisal, SurprisalEvidence
from ragsieve.evidence.writing import MixingDetail
from ragsieve.records import Annotation, Decision, Detail, Evidence, Verdict

MEANING = (
    "A flag is evidence that a document is promoted into retrieval, not that it is false; "
    "an unflagged document can be false."
)
_SHOWN = 6


def explain_verdict(verdict: Verdict) -> tuple[str, ...]:
    """The decision, then every evidence strongest first, one sentence each.

    Names from the corpus are made visible; nothing from it can control a terminal.
    """
    lines = [_decision(verdict)]
    measured = sorted(
        (one for one in verdict.evidences if one.measured), key=lambda one: -(one.value or 0.0)
    )
    lines += [explain_evidence(one) for one in measured]
    lines += [explain_evidence(one) for one in verdict.evidences if not one.measured]
    lines += [explain_annotation(one) for one in verdict.annotations]
    if verdict.truncated_characters:
        lines.append(
            f"The last {verdict.truncated_characters:,} characters of the document were not examined."
        )
    return tuple(lines)


def explain_evidence(evidence: Evidence) -> str:
    """One evidence in one sentence, with its value."""
    title = evidence.name.replace("_", " ").capitalize()
    if not evidence.measured:
        return f"{title}: unavailable ({visible(evidence.reason or 'no reason given')})."
    words = describe(evidence.detail) if evidence.detail is not None else ""
    return f"{title} {evidence.value:.3f}" + (f": {words}." if words else ".")


def explain_annotation(annotation: Annotation) -> str:
    """One remark in one sentence; it is no part of the score."""
    return (
        f"Remark, outside the score: {annotation.name}: characters {annotation.start} to "
        f"{annotation.stop}, '{visible(annotation.words, limit=120)}', stand in no other of the "
        "first documents; where facts are told once, true documents are remarked on as well."
    )


def strongest(verdict: Verdict) -> Evidence | None:
    """The measured evidence with the largest value; None when nothing was measured."""
    measured = [one for one in verdict.evidences if one.value is not None]
    return max(measured, key=lambda one: one.value or 0.0, default=None)


@functools.singledispatch
def describe(detail: Detail) -> str:  # noqa: ARG001 -- kinds register below
    """The facts behind an evidence, in words; empty for a kind without any."""
    return ""


@describe.register
def _(detail: AnchorEvidence) -> str:
    if not detail.anchors:
        return (
            f"no word outside the query is shared with another of the {detail.candidates} "
            "candidates"
        )
    words = ", ".join(
        f"'{visible(anchor.word, limit=40)}' ({anchor.in_candidates} of {detail.candidates} "
        f"candidates, {anchor.in_ranking} of {detail.documents} documents)"
        for anchor in detail.anchors[:_SHOWN]
    )
    tail = _and_more(detail.anchors)
    return (
        f"words the query does not ask with, shared at the top and rare in the tail: {words}{tail}; "
        f"combined probability {detail.probability:.2g}"
    )


@describe.register
def _(detail: ScriptProfile) -> str:
    if not detail.counts:
        return "the document has no letters"
    parts = ", ".join(f"{name} {count}" for name, count in detail.counts)
    if not detail.violates_integrity:
        return f"letters by script: {parts}; scripts neither touch nor number three"
    where = (
        f"two scripts touch first at character {detail.first_transition}"
        if detail.first_transition is not None
        else "three or more scripts occur"
    )
    return f"letters by script: {parts}; {where}"


@describe.register
def _(detail: ScriptTail) -> str:
    return (
        f"{detail.profile.minority_share:.1%} of letters lie outside the main script, at most "
        f"{detail.tail_maximum:.1%} in the tail (probability {detail.probability:.2g})"
    )


@describe.register
def _(detail: SurprisalEvidence) -> str:
    if detail.tokens == 0:
        return "the document is too short to have a token loss"
    seen = detail.strongest
    side = "burst" if seen.burst_nats >= seen.change_nats else "change point"
    height = max(seen.burst_nats, seen.change_nats)
    where = f", highest around token {seen.burst_token}" if side == "burst" else ""
    return (
        f"largest {side} over {seen.window} tokens is {height:.2f} nats{where}; "
        f"evidence begins at {seen.gate_nats:.2f}"
    )


@describe.register
def _(detail: AlignmentTail) -> str:
    return (
        f"alignment with the query jumps by {detail.jump:.3f} between neighbouring windows, at most "
        f"{detail.tail_maximum:.3f} in the tail (probability {detail.probability:.2g})"
    )


@describe.register
def _(detail: NeighborhoodDetail) -> str:
    contrast = detail.contrast
    if contrast.eligible == 0:
        return "no neighbour is both close (cosine 0.85) and differently worded (overlap 0.60)"
    kept = [edge for edge in detail.edges if edge.eligible][:_SHOWN]
    named = ", ".join(
        f"{visible(edge.document_id, limit=60)} ({edge.similarity:.3f})" for edge in kept
    )
    return (
        f"{contrast.eligible} differently worded neighbours stand at mean cosine "
        f"{contrast.mean_top:.3f} where the neighbourhood ends at {contrast.background:.3f}: {named}; "
        f"{detail.probability:.2%} of the corpus is as dense, the alert budget is {detail.budget:.2%}"
    )


@describe.register
def _(detail: GapDetail) -> str:
    copies = f"; {len(detail.copies)} near copies of it are left out" if detail.copies else ""
    if not detail.group:
        return f"too few neighbours are left to compare{copies}"
    named = ", ".join(
        f"{visible(one.document_id, limit=60)} ({one.similarity:.3f})"
        for one in detail.group[:_SHOWN]
    )
    tail = _and_more(detail.group)
    return (
        f"{len(detail.group)} nearest documents stand out: {named}{tail}; their mean cosine "
        f"{detail.mean:.3f} lies {detail.mean - detail.floor:.3f} above the floor "
        f"{detail.floor:.3f} of the next ones, a gap of {detail.gap:.3f} where "
        f"{detail.threshold:.3f} counts as full evidence{copies}"
    )


@describe.register
def _(detail: AlienDetail) -> str:
    run = detail.run
    if detail.span is None or not run.stop:
        return "no stretch of the document reads less like the corpus than the rest of it"
    confirmed = (
        "; no language model was asked"
        if detail.confirmation is None
        else f"; a language model's peak surprisal there is {detail.confirmation:.2f} of a blind guess"
    )
    return (
        f"characters {detail.span.start} to {detail.span.stop}, "
        f"'{visible(detail.excerpt, limit=120)}', hold {run.aliens} of {run.stop - run.start} tokens "
        f"that follow their predecessor nowhere else in the corpus, against {run.outside} of "
        f"{run.tokens - (run.stop - run.start)} in the rest of the document: "
        f"{run.ratio_nats:.1f} nats, {detail.threshold_nats:.1f} count as full evidence{confirmed}"
    )


@describe.register
def _(detail: OriginDetail) -> str:
    parts = [
        f"{one.shared} of {one.members} that stand out with it were created within "
        f"{one.days or 0.0:.1f} days (near neighbours of this corpus: {one.habit:.1%})"
        if one.field == "created"
        else f"{one.shared} of {one.members} that stand out with it share its {one.field} (near "
        f"neighbours of this corpus: {one.habit:.1%})"
        for one in detail.fields
    ]
    return "; ".join(parts) + f"; combined probability {detail.probability:.2g}, as declared"


@describe.register
def _(detail: RunTailDetail) -> str:
    return (
        f"its alien run of {detail.run_nats:.1f} nats stands against a median of "
        f"{detail.tail_median_nats:.1f} in the tail; evidence begins at {detail.start_nats:.1f}"
    )


@describe.register
def _(detail: CopyDetail) -> str:
    if not detail.run.length or detail.span is None:
        return "no word of the query is repeated"
    asked = (
        f"; {detail.question_share:.0%} of the tail open with a question"
        if detail.question_share
        else ""
    )
    return (
        f"characters {detail.span.start} to {detail.span.stop} repeat {detail.run.length} of the "
        f"query's {detail.query_tokens} tokens, '{visible(detail.excerpt, limit=120)}', where the tail "
        f"repeats at most {detail.tail_longest}{asked}; this evidence is capped at {detail.cap:g}"
    )


@describe.register
def _(detail: ShareTail) -> str:
    return (
        f"{detail.share:.1%} of letters lie outside the main script, at most "
        f"{detail.tail_maximum:.1%} in the tail"
    )


@describe.register
def _(detail: PeakSurprisal) -> str:
    if not detail.tokens:
        return "the document is too short to have a token loss"
    return (
        f"the most surprising 16 tokens, from token {detail.start} on, cost {detail.mean_nats:.2f} "
        f"nats each, {detail.share:.2f} of a blind guess"
    )


@describe.register
def _(detail: MixingDetail) -> str:
    if not detail.found:
        return "no word mixes writing systems without a reason"
    words = ", ".join(
        f"'{visible(token.text, limit=40)}' at character {token.start} "
        f"({' and '.join(token.scripts)}, {token.reason})"
        for token in detail.found[:_SHOWN]
    )
    tail = _and_more(detail.found)
    return f"words that mix writing systems without a reason the text gives: {words}{tail}"


@describe.register
def _(detail: HiddenText) -> str:
    if not detail.characters:
        return "no invisible character is out of place"
    kinds = {"bidi": "reordering", "zero_width": "zero-width", "tag": "text-carrying"}
    shown = ", ".join(
        f"U+{one.code_point:04X} ({kinds[one.kind]}) at character {one.offset}"
        for one in detail.characters[:_SHOWN]
    )
    tail = _and_more(detail.characters)
    turned = "; an override turns letters or digits around" if detail.reorders else ""
    said = f"; they spell '{visible(detail.message, limit=40)}'" if detail.message else ""
    return f"invisible characters that nothing asks for: {shown}{tail}{turned}{said}"


def _and_more(items: Sequence[object]) -> str:
    more = len(items) - _SHOWN
    return f" and {more} more" if more > 0 else ""


def _decision(verdict: Verdict) -> str:
    bound = "" if verdict.complete else "at least "
    comparison = {
        Decision.FLAGGED: "reaches",
        Decision.CLEAR: "stays below",
        Decision.UNDECIDED: "stays below, with evidence missing,",
    }[verdict.decision]
    return (
        f"{verdict.decision.value.capitalize()}: score {bound}{verdict.score:.3f} {comparison} "
        f"the threshold {verdict.threshold:g} (profile {verdict.profile}; level {verdict.level})."
    )
