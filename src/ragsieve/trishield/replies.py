"""What one reply counts as, and whether two replies say the same."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Sequence

from ragsieve.chat.answers import abstains, normalized, runs_in
from ragsieve.chat.prompts import answer_prompt
from ragsieve.evidence.copying import copied_run

_FENCE = re.compile(r"\bdocument \d+ (?:begins|ends)\b")
_SCAFFOLD = frozenset({"question", "answer"})
_INSTRUCTION_RUN = 6
_QUESTION_RUN = 4
_NUMBER_DIGITS = 4
# Words that tell nothing by themselves: a reply of these alone matches no longer reply.
_CLOSED = frozenset(
    "is was are were be been am do does did has have had will would can could may of in on at to "
    "by for from with as and but if then than so that this these those it its he she they him her "
    "them his their i we you my our your there here who whom whose which what when where why how "
    "also just very only".split()
)
_YES_NO = frozenset({"yes", "no", "true", "false"})
# "No one" and "no longer" are not the answer "no".
_AFTER_NO = frozenset({"one", "longer", "more", "other"})
# A longer reply with one of these does not simply add to the shorter: it denies or hedges.
_DENIALS = frozenset(
    "not no never neither nor none cannot isnt wasnt arent werent doesnt didnt dont cant without "
    "false wrong incorrect".split()
)
_HEDGES = frozenset("or either maybe perhaps possibly instead rather unlike except".split())


class Standing(enum.StrEnum):
    """Whether a member's reply votes, and if not, why."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"
    EMPTY = "empty"
    ECHO = "echo"
    TOO_LONG = "too-long"
    FAILED = "failed"
    TIMED_OUT = "timed-out"

    @property
    def broken(self) -> bool:
        """Whether the member gave no reply at all."""
        return self in {Standing.FAILED, Standing.TIMED_OUT}


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One reply, read.

    :param words: what votes, normalised, the question repeated in it taken out; empty when the
        reply does not vote.
    :param reason: why it does not vote; None when it does.
    """

    standing: Standing
    words: tuple[str, ...] = ()
    reason: str | None = None


def read_reply(content: str, question: str, *, max_words: int | None) -> Reading:
    """Whether a reply votes, and with which words.

    :param question: as it was asked.
    :param max_words: a longer reply does not vote: it would contain every short answer; None
        where there is no vote.
    """
    words = normalized(content).split()
    if not words:
        return Reading(Standing.EMPTY, reason="the reply holds no word")
    if abstains(content):
        return Reading(Standing.ABSTAINED, reason="says that the documents do not tell")
    instructions = _instructions()
    run = copied_run(words, instructions).length
    # The last word of a reply that was cut off need not be whole.
    cut_off = len(words) >= _QUESTION_RUN and run >= len(words) - 1
    if _FENCE.search(" ".join(words)) or run >= _INSTRUCTION_RUN or cut_off:
        return Reading(Standing.ECHO, reason="repeats the prompt")
    asked = normalized(question).split()
    own = _without(words, asked)
    if not own or _is_cut_echo(own, asked):
        return Reading(Standing.ECHO, reason="repeats the question")
    if max_words is not None and len(own) > max_words:
        reason = f"{len(own)} words, an answer may hold {max_words}"
        return Reading(Standing.TOO_LONG, reason=reason)
    return Reading(Standing.ANSWERED, tuple(own))


def agree(left: Sequence[str], right: Sequence[str], question: frozenset[str]) -> bool:
    """Whether two voting replies say the same: equal, or the shorter stands in the longer.

    Containment does not count where the shorter tells nothing by itself, where the longer
    denies or hedges, or where the shorter is a number of a few digits. A shorter reply made of
    the question's own words (or yes, no) must stand at the longer one's beginning.

    :param left: normalised words, as ``right``.
    :param question: normalised words of the question.
    """
    short, long = sorted((tuple(left), tuple(right)), key=len)
    if short == long:
        return True
    # "No, it is not" says what "no" says.
    turns = _HEDGES if short == ("no",) else _HEDGES | _DENIALS
    if not runs_in(short, long) or turns & (set(long) - set(short)):
        return False
    telling = [word for word in short if word not in _CLOSED]
    if not telling:
        return False
    if all(word.isdecimal() for word in telling) and sum(map(len, telling)) < _NUMBER_DIGITS:
        return False
    if all(word in question or word in _YES_NO for word in telling):
        meant = short[-1] != "no" or long[len(short)] not in _AFTER_NO
        return long[: len(short)] == short and meant
    return True


@functools.cache
def _instructions() -> tuple[str, ...]:
    """The words every prompt holds, without question and documents."""
    return tuple(normalized(" ".join(turn.content for turn in answer_prompt("", ()))).split())


def _without(words: Sequence[str], asked: Sequence[str]) -> list[str]:
    """A reply without the whole question and the prompt's own marks around it."""
    own = list(words)
    if asked and runs_in(asked, own):
        width = len(asked)
        start = next(at for at in range(len(own)) if own[at : at + width] == list(asked))
        own = own[:start] + own[start + width :]
    while own and own[0] in _SCAFFOLD:
        own.pop(0)
    while own and own[-1] in _SCAFFOLD:
        own.pop()
    return own


def _is_cut_echo(own: Sequence[str], asked: Sequence[str]) -> bool:
    """Whether a reply is the beginning of the question, or more than half of it, and no more."""
    if len(own) < _QUESTION_RUN:
        return False
    # The limit of tokens cuts within words.
    begun = list(asked[: len(own)])
    if begun[:-1] == list(own[:-1]) and begun[-1].startswith(own[-1]):
        return True
    return runs_in(own, asked) and 2 * len(own) > len(asked)
