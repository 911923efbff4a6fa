"""The desk on this machine's own address, and a Chromium that looks at it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import threading
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 10_000


@contextlib.contextmanager
def desk(bench):
    """The address of a service over a bench."""
    from ragsieve.service.app import create_app
    from ragsieve.service.serving import make_server
    from ragsieve.settings import ServiceSettings

    settings = ServiceSettings(port=0)
    server = make_server(create_app(bench.parts(settings=settings)), settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextlib.contextmanager
def chromium():
    """A headless browser."""
    from playwright.sync_api import sync_playwright

    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    assert path is not None, "no Chromium is installed; run tests/service/chromium.sh"
    # Chromium's sandbox does not start for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()


@dataclasses.dataclass
class Watched:
    """A page, and everything that should not happen on it.

    :param said: errors and warnings of the console, a broken policy among them.
    :param dialogs: that some script opened.
    :param elsewhere: requests to any other place.
    """

    page: object
    said: list
    dialogs: list
    elsewhere: list

    @property
    def calm(self):
        return (self.said, self.dialogs, self.elsewhere) == ([], [], [])

    def overflow(self):
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )


@contextlib.contextmanager
def watched(browser, address, *, script=True, width=1280, height=900):
    """A new window on an address."""
    context = browser.new_context(
        base_url=address,
        java_script_enabled=script,
        viewport={"width": width, "height": height},
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    found = Watched(page, [], [], [])

    def said(message):
        if message.type in {"error", "warning"}:
            found.said.append(message.text)

    def dialog(one):
        found.dialogs.append(one.message)
        one.dismiss()

    page.on("console", said)
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("dialog", dialog)
    page.on(
        "request",
        lambda one: None if one.url.startswith(address) else found.elsewhere.append(one.url),
    )
    try:
        yield found
    finally:
        context.close()
