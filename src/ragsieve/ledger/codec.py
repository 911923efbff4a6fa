"""Records as text and back, exactly, and the keys that are made of them."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np

from ragsieve.cases import Place, QueryContext, RiskTier, Seen, Standing
from ragsieve.records import Annotation, Decision, Evidence, Level, Provenance, Verdict

_WEIGHTS = {RiskTier.LOW: 0.5, RiskTier.NORMAL: 1.0, RiskTier.HIGH: 2.0}
_MOST_RISK = 1e6


def place_key(place: Place) -> str:
    """One key for one place, hexadecimal, however long or odd its names are."""
    return _key([place.tenant, place.store, place.document_id])


def verdict_key(scan_id: str, place: Place, content_sha256: str) -> str:
    """A verdict's key: of its scan, its place and its content."""
    return _key([scan_id, place_key(place), content_sha256])


def risk_of(verdict: Verdict, standing: Standing) -> float:
    """How pressing a finding is before its exposure, in [0, 10^6].

    ``score / threshold`` x the tier's weight: low 0.5, normal 1, high 2.
    """
    share = verdict.score / verdict.threshold if verdict.threshold > 0 else verdict.score
    risk = share * _WEIGHTS[standing.risk_tier]
    return min(risk, _MOST_RISK) if risk > 0 else 0.0


def verdict_text(verdict: Verdict) -> str:
    """A verdict with every number of its evidence; the `Detail` behind an explanation is left out.

    A detail is a type of the room that measures; nothing here may know it.
    """
    return _text(
        {
            "document_id": verdict.document_id,
            "score": verdict.score,
            "threshold": verdict.threshold,
            "decision": str(verdict.decision),
            "level": str(verdict.level),
            "evidences": [_evidence_fields(one) for one in verdict.evidences],
            "profile": verdict.profile,
            "fingerprint": verdict.fingerprint,
            "rank": verdict.rank,
            "truncated_characters": verdict.truncated_characters,
            "annotations": [
                {"name": one.name, "words": one.words, "start": one.start, "stop": one.stop}
                for one in verdict.annotations
            ],
        }
    )


def verdict_of(text: str) -> Verdict:
    """The verdict that `verdict_text` wrote."""
    fields = json.loads(text)
    return Verdict(
        **{
            **fields,
            "decision": Decision(fields["decision"]),
            "level": Level(fields["level"]),
            "evidences": tuple(_evidence_of(one) for one in fields["evidences"]),
            "annotations": tuple(Annotation(**one) for one in fields["annotations"]),
        }
    )


def standing_text(standing: Standing) -> str:
    """What a policy knew of a document, as text."""
    origin = standing.provenance
    return _text(
        {
            "provenance": {
                "source": origin.source,
                "author": origin.author,
                "tenant": origin.tenant,
                "version": origin.version,
                "created": origin.created,
            },
            "acl": standing.acl,
            "source_trust": standing.source_trust,
            "document_version": standing.document_version,
            "risk_tier": str(standing.risk_tier),
        }
    )


def standing_of(text: str) -> Standing:
    """The standing that `standing_text` wrote."""
    fields = json.loads(text)
    return Standing(
        **{
            **fields,
            "provenance": Provenance(**fields["provenance"]),
            "risk_tier": RiskTier(fields["risk_tier"]),
        }
    )


def context_text(context: QueryContext) -> str:
    """A retrieval as text."""
    return _text(
        {
            "query_id": context.query_id,
            "query": context.query,
            "ranking": [[one.document_id, one.rank, one.similarity] for one in context.ranking],
        }
    )


def context_of(text: str) -> QueryContext:
    """The retrieval that `context_text` wrote."""
    fields = json.loads(text)
    return QueryContext(**{**fields, "ranking": tuple(Seen(*one) for one in fields["ranking"])})


def finite(number: float) -> float:
    """The number, or the largest there is: no database orders infinities alike."""
    return float(min(number, np.finfo(np.float64).max)) if not math.isnan(number) else 0.0


def _evidence_fields(evidence: Evidence) -> dict[str, Any]:
    return {
        "name": evidence.name,
        "value": evidence.value,
        "probability": evidence.probability,
        "reason": evidence.reason,
        "components": [list(pair) for pair in evidence.components],
        "optional": evidence.optional,
    }


def _evidence_of(fields: dict[str, Any]) -> Evidence:
    components = tuple((name, number) for name, number in fields["components"])
    return Evidence(**{**fields, "components": components})


def _text(value: Any) -> str:
    # Not escaped to ASCII: that would join two lone surrogates into one character on reading.
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a record of the ledger cannot hold {type(value).__name__}")


def _key(parts: list[Any]) -> str:
    text = json.dumps(parts, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
