"""Findings as SARIF 2.1.0, for code hosts and viewers of static analysis."""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from ragsieve.cases import Incident, Opinion
from ragsieve.display import visible
from ragsieve.findings.plain import (
    MEANING,
    case_fields,
    check_finite,
    evidence_fields,
    rules_of,
    safe,
    summary,
    tool_version,
    without_nothing,
)
from ragsieve.findings.taxonomy import Catalogue, Rule, Taxonomy, taxonomy

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
RESULTS_PER_RUN = 25_000
"""More in one run is refused by GitHub, which also takes no more than 20 runs of one file."""

KIND, LEVEL = "review", "warning"
_NAME_CHARACTERS = 200


def sarif_document(
    incidents: Sequence[Incident], *, results_per_run: int = RESULTS_PER_RUN
) -> dict[str, Any]:
    """One log: a result for every finding, the highest score first.

    A finding is one result under the rule of its strongest evidence; the others stand in its
    properties. More findings than ``results_per_run`` are shared out over several runs, each
    an analysis of its own (`automationDetails.id`).

    :param results_per_run: at least 1.
    :raises InputError: for a number that is not finite.
    """
    check_finite(incidents)
    known = taxonomy()
    ordered = sorted(incidents, key=lambda one: (-_priority(one), one.id))
    parts = [
        ordered[start : start + results_per_run]
        for start in range(0, len(ordered), results_per_run)
    ] or [[]]
    runs = [_run(part, number, known) for number, part in enumerate(parts, start=1)]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": runs}


def write_sarif(incidents: Sequence[Incident]) -> Iterator[str]:
    """The log as JSON text, in pieces.

    :raises InputError: for a number that is not finite.
    """
    document = sarif_document(incidents)
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=1)
    return itertools.chain(encoder.iterencode(document), "\n")


def _run(incidents: Sequence[Incident], number: int, known: Taxonomy) -> dict[str, Any]:
    rules = {one.id: one for incident in incidents for one in rules_of(incident.verdict, known)}
    listed = [rules[name] for name in sorted(rules)]
    places = {rule.id: index for index, rule in enumerate(listed)}
    catalogues = (known.atlas, known.owasp)
    copies: collections.Counter[tuple[str, ...]] = collections.Counter()
    results = []
    for incident in incidents:
        result = _result(incident, places, known)
        copies[_same(incident, result)] += 1
        # A code host keeps one alert a fingerprint: equal texts in one file are told apart.
        result["partialFingerprints"] = {
            "contentSha256/v1": incident.content_sha256,
            "primaryLocationLineHash": f"{incident.content_sha256[:16]}:"
            f"{copies[_same(incident, result)]}",
        }
        results.append(safe(result))
    return {
        "automationDetails": {"id": f"ragsieve/part-{number}/"},
        "tool": {
            "driver": {
                "name": "ragsieve",
                "version": tool_version(),
                "shortDescription": {"text": "Finds documents planted to steer retrieval."},
                "fullDescription": {"text": MEANING},
                "rules": [_descriptor(rule, catalogues) for rule in listed],
                "supportedTaxonomies": [
                    {"name": one.name, "index": index} for index, one in enumerate(catalogues)
                ],
            }
        },
        "taxonomies": [_taxonomy(one) for one in catalogues],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }


def _same(incident: Incident, result: dict[str, Any]) -> tuple[str, ...]:
    return (result["ruleId"], incident.place.store, incident.content_sha256)


def _descriptor(rule: Rule, catalogues: tuple[Catalogue, Catalogue]) -> dict[str, Any]:
    ids = {*rule.techniques, *rule.risks}
    return {
        "id": rule.id,
        "name": "".join(part.capitalize() for part in rule.id.split("-")),
        "shortDescription": {"text": _literal(rule.title)},
        "fullDescription": {"text": rule.text},
        "help": {"text": f"{rule.text} {MEANING}"},
        "defaultConfiguration": {"level": LEVEL},
        "relationships": [
            {
                "target": {
                    "id": entry.id,
                    "index": index,
                    "toolComponent": {"name": one.name, "index": place},
                },
                "kinds": ["relevant"],
            }
            for place, one in enumerate(catalogues)
            for index, entry in enumerate(one.entries)
            if entry.id in ids
        ],
        "properties": {"tags": ["security", "retrieval", *sorted(ids)]},
    }


def _taxonomy(catalogue: Catalogue) -> dict[str, Any]:
    return {
        "name": catalogue.name,
        "version": catalogue.version,
        "organization": catalogue.organization,
        "shortDescription": {"text": f"{catalogue.name} {catalogue.version}, as far as used here."},
        "isComprehensive": False,
        "taxa": [
            {"id": one.id, "name": one.name, "shortDescription": {"text": one.name}}
            for one in catalogue.entries
        ],
    }


def _result(incident: Incident, places: dict[str, int], known: Taxonomy) -> dict[str, Any]:
    rules = rules_of(incident.verdict, known)
    named = visible(incident.place.document_id, limit=_NAME_CHARACTERS)
    return {
        "ruleId": rules[0].id,
        "ruleIndex": places[rules[0].id],
        "kind": KIND,
        "level": LEVEL,
        "rank": round(_priority(incident), 3),
        "message": {
            "text": f"{_literal(f'{summary(incident, known)} Document: {named}.')} {MEANING}"
        },
        "locations": [_location(incident)],
        "taxa": [
            {"id": entry.id, "index": index, "toolComponent": {"name": one.name, "index": place}}
            for place, (one, used) in enumerate(
                ((known.atlas, known.techniques(rules)), (known.owasp, known.risks(rules)))
            )
            for index, entry in enumerate(one.entries)
            if entry in used
        ],
        # All results of a run carry suppressions or none does.
        "suppressions": _suppressions(incident),
        "properties": _properties(incident, rules, known),
    }


def _location(incident: Incident) -> dict[str, Any]:
    place = incident.place
    # The page does not know on which line of a file a document stands, and does not say one.
    address = _artifact(place.store)
    logical = {
        "name": place.document_id,
        "fullyQualifiedName": f"{place.store}/{place.document_id}",
        "kind": "resource",
    }
    location: dict[str, Any] = {"logicalLocations": [logical]}
    if address is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": address}}
    return location


def _artifact(store: str) -> str | None:
    """A file corpus as a URI; None for a store, which has no file to point at."""
    scheme, separator, rest = store.partition("://")
    if separator and scheme.lower() != "file":
        return None
    path = urlsplit(store).path if separator else store
    if not path or (separator and not rest):
        return None
    if separator:
        return "file://" + quote(path, safe="/%", errors="surrogatepass")
    whole = quote(path.replace("\\", "/"), errors="surrogatepass")
    return f"file://{whole}" if whole.startswith("/") else whole


def _suppressions(incident: Incident) -> list[dict[str, Any]]:
    if incident.opinion is not Opinion.BENIGN:
        return []
    said = f"Reviewed as benign by {incident.reviewer or 'a reviewer who is not named'}."
    return [{"kind": "external", "status": "accepted", "justification": said}]


def _properties(incident: Incident, rules: Sequence[Rule], known: Taxonomy) -> dict[str, Any]:
    verdict = incident.verdict
    fields = {
        "score": verdict.score,
        "score_is_lower_bound": not verdict.complete,
        "threshold": verdict.threshold,
        "decision_of_detector": verdict.decision,
        "level_of_detector": verdict.level,
        "profile": verdict.profile,
        "fingerprint": verdict.fingerprint,
        "truncated_characters": verdict.truncated_characters,
        "rules": [rule.id for rule in rules],
        "evidences": [evidence_fields(one, known) for one in verdict.evidences],
        "store": incident.place.store,
        "document_id": incident.place.document_id,
        "tenant": incident.place.tenant,
        "title": incident.title,
        "excerpt": incident.excerpt,
        "content_sha256": incident.content_sha256,
        "query_id": incident.context.query_id if incident.context else None,
        "rank_in_query": verdict.rank,
    }
    return without_nothing(fields | case_fields(incident))


def _priority(incident: Incident) -> float:
    """SARIF's rank, from 0 to 100: 50 at the threshold, and never less for more evidence."""
    score, threshold = max(0.0, incident.verdict.score), max(0.0, incident.verdict.threshold)
    # Written so that two large numbers do not overflow.
    return 100.0 if score > 0.0 == threshold else 100.0 * _share(score, threshold)


def _share(score: float, threshold: float) -> float:
    return 0.0 if score == 0.0 else 1.0 / (1.0 + threshold / score)


def _literal(text: str) -> str:
    """Text inside a message, where brackets would begin a link and braces a placeholder."""
    for mark in "\\[]":
        text = text.replace(mark, "\\" + mark)
    return text.replace("{", "{{").replace("}", "}}")
