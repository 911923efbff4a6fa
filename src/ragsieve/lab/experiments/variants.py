"""Judgements and searches as they would have been: fewer evidences, neighbours that were missed."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.paper_corpus import TOPOLOGY, PaperCorpusConfig, PaperCorpusRule
from ragsieve.detectors.rules import CorpusRule, QueryRule, decide, level_of
from ragsieve.errors import ConfigError
from ragsieve.lab.experiments.spec import Method
from ragsieve.records import Evidence, NeighborGraph, Ranking, Verdict


def recombined(verdict: Verdict, rule: QueryRule | CorpusRule, method: Method) -> Verdict:
    """The verdict over the evidences the method keeps, same threshold.

    The published corpus-local ablation gives topology the whole alert budget; so does this.

    :raises ConfigError: when the rule has no evidence of that name.
    """
    names = [one.name for one in verdict.evidences]
    unknown = (set(method.without) | ({method.alone} if method.alone else set())) - set(names)
    if unknown:
        raise ConfigError(
            f"evidence: expected one of {', '.join(names)}, found {', '.join(sorted(unknown))}"
        )
    kept = tuple(
        one
        for one in verdict.evidences
        if one.name not in method.without and method.alone in {None, one.name}
    )
    if method.alone == TOPOLOGY and isinstance(rule, PaperCorpusRule):
        kept = (_whole_budget(kept[0], rule.config),)
    values = [one.value for one in kept if one.value is not None]
    score = rule.combine(values)
    complete = all(one.measured or one.optional for one in kept)
    decision = decide(score, verdict.threshold, complete=complete)
    return dataclasses.replace(
        verdict,
        evidences=kept,
        score=score,
        decision=decision,
        level=level_of(decision, rule.level, kept, score),
    )


def _whole_budget(topology: Evidence, config: PaperCorpusConfig) -> Evidence:
    tail = dict(topology.components).get("upper_tail_probability")
    if tail is None or not topology.measured:
        return topology
    return dataclasses.replace(topology, value=min(1.0, 0.5 * config.alert_budget / float(tail)))


def deeper(wanted: int, recall: float) -> int:
    """How deep an exact search must go so that ``wanted`` survive the thinning."""
    # Four standard deviations of a binomial; the rare row that is still short is filled up.
    mean = wanted / recall
    return int(np.ceil(mean + 4 * np.sqrt(mean * (1 - recall)) / recall + 1))


def thinned_graph(
    exact: NeighborGraph, wanted: int, recall: float, rng: np.random.Generator
) -> NeighborGraph:
    """A graph as an approximate search would give it: each neighbour is missed at random.

    Further neighbours move up, as in an index that returns k whatever it missed; the share of the
    exact first ``wanted`` that are still there is ``recall`` on average.

    :param exact: at least ``wanted`` neighbours, more so that there is something to move up.
    """
    found = rng.random(exact.indices.shape) < recall
    chosen = _first(found, wanted)
    return NeighborGraph(
        np.take_along_axis(exact.indices, chosen, axis=1),
        np.take_along_axis(exact.similarities, chosen, axis=1),
    )


def thinned_ranking(
    exact: Ranking, wanted: int, recall: float, rng: np.random.Generator
) -> Ranking:
    """A ranking as an approximate search would give it, at most ``wanted`` deep."""
    found = rng.random((1, len(exact))) < recall
    kept = _first(found, min(wanted, len(exact)))[0]
    return exact.renumbered([exact.entries[place] for place in kept.tolist()])


def _first(found: npt.NDArray[np.bool_], wanted: int) -> npt.NDArray[np.int64]:
    """Columns of the first ``wanted`` found of each row, the nearest missed ones where too few."""
    used = min(wanted, found.shape[1])
    # A stable sort puts what was found first, each part in the order of similarity.
    order = np.argsort(~found, axis=1, kind="stable")[:, :used]
    chosen: npt.NDArray[np.int64] = np.sort(order, axis=1)
    return chosen
