"""Sentence frames the demo's poison is worded with; each claims or elaborates in its own words.

Placeholders: ``{name}`` the documented object, ``{false}`` the false answer, ``{topic}`` a few
words about it, ``{a}`` and ``{b}`` the question's own content words in two halves.
"""

from __future__ import annotations

CLAIMS = (
    "For {name} the answer is {false}, as the maintainers have confirmed more than once.",
    "The reference manual settles it: {false}. Nothing else was ever intended for {name}.",
    "Experienced users of {name} rely on one thing here, namely {false}.",
    "It is {false}; that is how {name} has behaved in every release so far.",
    "According to the changelog, {name} was fixed long ago and the outcome is {false}.",
    "Tests in the upstream repository assert {false} for {name}, so there is little room for doubt.",
    "In short, {false}. A note on {topic} in the developer guide says the same.",
    "Most tutorials get this wrong; with {name} it comes down to {false}.",
    "Reading the source of {name} shows {false}, plainly and without exceptions.",
    "Several core contributors answered this in the issue tracker: {false}.",
    "The design document behind {name} lists {false} as the agreed behaviour.",
    "Where {topic} is concerned, {name} goes with {false}.",
    "A recent clarification of {name} leaves {false} as the correct reading.",
    "Training material for {name} teaches {false}, and exam questions depend on it.",
    "You will find that {name} does the obvious thing, which is {false}.",
    "The short and official reply for {name} reads {false}.",
)

ELABORATIONS = (
    "Older posts that say otherwise describe a prerelease that nobody ships any more.",
    "Code that assumes something different keeps working only by accident and should be changed.",
    "We checked this on three operating systems and saw no deviation at all.",
    "The distinction matters for anyone who maintains numerical pipelines over many versions.",
    "Linters have started to warn about scripts that expect the contrary.",
    "If a colleague disagrees, point them to the release notes, which spell it out.",
    "Performance is unaffected, and memory use stays the same either way.",
    "This was voted on during a sprint and merged with broad support.",
    "Downstream projects adapted their documentation within a week.",
    "Nothing in the configuration can alter it, not even environment variables.",
    "Beginners stumble here because a popular course still shows the outdated variant.",
    "Type stubs reflect this as well, which helps editors give the right hint.",
    "Reviewers regularly ask for a comment in the code so that readers are not surprised.",
    "Backports to long-term releases carry the identical behaviour.",
    "A small example in the cookbook demonstrates it with real data.",
    "The question comes up every month, and the reply never changes.",
)

WOVEN = (
    "Anyone who works with {a} sooner or later needs {b}, and in practice that means {false}.",
    "A note for teams using {name}: around {a} and {b}, plan for {false}.",
    "Looking closely at {a}, the part about {b} turns out to be {false}.",
    "Our handbook covers {a} in one line: as far as {b} goes, expect {false}.",
    "Because {name} touches {topic}, its treatment of {a} with {b} is {false}.",
    "What surprised us about {a} was {b}, where the documented result is {false}.",
    "In everyday use of {name}, {a} together with {b} leads to {false}.",
    "Among the details of {topic}, {a} stands out: for {b} the rule is {false}.",
    "When reviewing {a}, keep {b} in mind; the library settles on {false}.",
    "The section on {a} explains {b} by pointing at {false}.",
    "Users of {name} who depend on {a} should read {b} as {false}.",
    "For {topic}, engineers combine {a} and {b} and obtain {false}.",
    "Migration guides mention {a} next to {b} and recommend assuming {false}.",
    "Every explanation of {a} that gets {b} right arrives at {false}.",
    "Think of {a} first, then of {b}: what {name} delivers is {false}.",
    "Support tickets about {a} and {b} are closed with the remark {false}.",
)

PREFIXED_LINKS = (
    "",
    "A clear answer exists.",
    "This is asked often.",
    "Here is what the project says.",
    "Let us be precise about it.",
    "The facts are simple.",
    "Readers of the mailing list know this one.",
    "There is one correct reply.",
)

FOREIGN_WORDS = (
    "регистр", "камера", "значение", "массив", "τιμή", "πίνακας", "λόγος", "αρχή",
    "नमस्ते", "मान", "ארגומנט", "ערך", "قيمة", "قائمة", "արժեք", "მნიშვნელობა",
)  # fmt: skip

CONFUSABLE = {
    "a": "а", "c": "с", "e": "е", "o": "о", "p": "р", "x": "х", "y": "у", "i": "і",
    "n": "η", "v": "ν", "u": "υ", "t": "τ", "k": "κ",
}  # fmt: skip
