"""What happens where judging fails or takes too long: refuse, or hand over unfiltered and say so."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection
from typing import TypeVar

from ragsieve.errors import InputError
from ragsieve.outcomes import Action, Outcome, Step
from ragsieve.records import Ranking
from ragsieve.service.problems import Refused, where
from ragsieve.service.workers import Overloaded, Workers

STAGE = "service"

log = logging.getLogger("ragsieve.service")

T = TypeVar("T")


class Failure(enum.StrEnum):
    """Why nothing was judged."""

    ERROR = "error"
    TIMEOUT = "timeout"
    OVERLOAD = "overload"


_WORDS = {
    Failure.ERROR: "judging failed",
    Failure.TIMEOUT: "judging took too long",
    Failure.OVERLOAD: "too many requests wait to be judged",
}


async def attempt(workers: Workers, job: Callable[[], T], *, seconds: float) -> T | Failure:
    """A job's result, or why there is none.

    :raises InputError: when what was sent cannot be judged; that is the sender's to change.
    """
    try:
        return await workers.run(job, seconds=seconds)
    except Overloaded:
        return Failure.OVERLOAD
    except TimeoutError:
        log.warning("judging took longer than %g seconds", seconds)
        return Failure.TIMEOUT
    except (InputError, Refused):
        raise
    except Exception as error:  # noqa: BLE001 -- whatever fails, the policy says what follows
        log.error("judging failed: %s", where(error))  # noqa: TRY400 -- a traceback has the text
        return Failure.ERROR


def refusal(failure: Failure) -> Refused:
    """The answer where the policy is closed."""
    return Refused(503, f"{_WORDS[failure]}; nothing is handed over", headers={"Retry-After": "1"})


def unfiltered(
    ranking: Ranking, withheld: Collection[str], failure: Failure, *, size: int
) -> Outcome:
    """The ranking as it was retrieved, without what is quarantined: that needs no judgement.

    :param size: documents of the context.
    """
    survivors = [one for one in ranking.entries if one.document.id not in withheld]
    left = ranking.renumbered(survivors)
    taken = [one for one in ranking.entries if one.document.id in withheld]
    steps = [Step(STAGE, Action.REMOVED, "quarantined", one.document.id, one.rank) for one in taken]
    reason = f"{_WORDS[failure]}; handed over unfiltered, as the policy says"
    return Outcome(
        ranking=ranking,
        kept=left.entries[:size],
        survivors=left,
        quarantined_ids=tuple(one.document.id for one in taken),
        removed_ids=(),
        verdicts=(),
        trace=(*steps, Step(STAGE, Action.NOTED, reason)),
        partial=True,
    )
