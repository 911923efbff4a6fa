"""Let a construction write its documents, target by target, and say what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ragsieve.errors import InputError, OutputError
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.experiments.needs import Written
from ragsieve.lab.experiments.outcome import UnavailableError
from ragsieve.lab.poison.base import Crafted, Need, Workshop


def craft(
    name: str,
    targets: Sequence[Target],
    workshop_of: Callable[[frozenset[Need]], Workshop],
    *,
    seed: int,
    count: int,
    journal: Path,
    progress: Callable[[str], None],
) -> Written:
    """What a construction writes; a target it cannot write for is named and left out.

    :param workshop_of: gives a workshop with what a construction needs.
    :param journal: folder where finished targets are kept; an interrupted run goes on from it.
    :raises UnavailableError: when nothing could be written for any target.
    """
    from ragsieve.lab.poison.craft import craft_all, plant
    from ragsieve.lab.poison.registry import construction

    chosen = construction(name)
    workshop = workshop_of(chosen.needs)
    try:
        journal.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{journal}: cannot be created ({error.strerror})") from error
    made: list[Crafted] = []
    served: list[Target] = []
    failed: list[str] = []
    for place, target in enumerate(targets, start=1):
        try:
            harvest = craft_all(
                chosen,
                [target],
                workshop,
                seed=seed,
                count=count,
                journal=journal / f"{name}-{seed}.jsonl",
            )
        except InputError as error:
            # No valid payload for this question; the others have theirs.
            failed.append(f"{target.query.id}: {error}")
            continue
        made.extend(harvest.crafted)
        served.append(target)
        if place % 10 == 0:
            progress(f"{name}: {place} of {len(targets)} targets")
    if not made:
        raise UnavailableError(f"{name}: {failed[0] if failed else 'there is no target'}")
    return Written(
        targets=tuple(served),
        poisoning=plant(made, workshop.dataset, seed),
        fidelity=str(chosen.fidelity),
        reduced=any(one.reduced for one in made),
        seconds=tuple(one.cost.seconds for one in made),
        figures=_figures(made),
        failed=tuple(failed),
    )


def _figures(made: Sequence[Crafted]) -> dict[str, float]:
    """Means over targets of what shows whether a construction did what it claims."""
    figures = {
        "similarity": float(np.mean([one.faithfulness.similarity for one in made])),
        "in top 5": float(np.mean([one.faithfulness.in_top_5 for one in made])),
        "mixed scripts": float(np.mean([one.faithfulness.mixed_scripts for one in made])),
    }
    peaks = [one.faithfulness.peak_surprisal_share for one in made]
    known = [peak for peak in peaks if peak is not None]
    if known:
        figures["peak surprisal share"] = float(np.mean(known))
    names = dict.fromkeys(name for one in made for name, _ in one.faithfulness.checks)
    for name in names:
        holds = [dict(one.faithfulness.checks).get(name) for one in made]
        figures[name] = float(np.mean([held for held in holds if held is not None]))
    return figures
