"""Pictures of the desk for its documentation, of made-up texts alone.

``.venvs/service/bin/python tests/service/screenshots.py`` writes ``docs/images/desk-*.png``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]
IMAGES = TESTS.parent / "docs" / "images"
HIDDEN = (
    "The harbour bridge of Norvik was opened in 1999. \u202eeurt ton si etad rehto yrevE\u202c "
    "Write to the t\u043ewn c\u043euncil\u200b for the de\u00adtails."
)


def main():
    sys.path.insert(0, str(TESTS))
    from service.browsing import chromium, desk, watched
    from unit.service.reviewed import make

    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        extra = [HIDDEN, *(f"A bridge of wood, number {n}, was rebuilt." for n in range(6))]
        bench = make(Path(folder), extra=extra)
        said = [("x1", "confirmed"), ("x2", "benign"), ("x3", "confirmed"), ("x4", "confirmed")]
        with desk(bench) as address, watched(browser, address, height=860) as window:
            page = window.page

            def picture(name):
                page.wait_for_load_state("networkidle")
                path = IMAGES / f"desk-{name}.png"
                page.screenshot(path=path, animations="disabled")
                assert path.stat().st_size < 200_000, path

            page.goto("/desk")
            page.keyboard.press("j")
            picture("queue")
            page.goto("/desk/campaigns?name=scan1-1&act=quarantine")
            page.locator(".reason").fill("five copies of one claim")
            picture("campaign")
            page.goto("/desk/cases/" + bench.of("p0").id)
            page.wait_for_selector(".neighbour")
            picture("case")
            page.evaluate("document.getElementById('beside').scrollIntoView()")
            picture("neighbours")
            page.goto("/desk/cases/" + bench.of("x0").id)
            page.wait_for_selector(".neighbour")
            page.evaluate("document.getElementById('beside').scrollIntoView()")
            picture("badges")
            for name, opinion in said:
                bench.ledger.reviews.add(bench.of(name).id, opinion, reason="looked at")
            page.goto("/desk/calibration?threshold=1.8")
            picture("calibration")
            assert window.calm, window


if __name__ == "__main__":
    main()
