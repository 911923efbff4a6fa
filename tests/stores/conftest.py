"""An open collection of any store."""

from __future__ import annotations

import contextlib

import pytest

from ragsieve.connectors import open_store
from stores.makers import all_makers, make_rows


def pytest_generate_tests(metafunc):
    if "maker" in metafunc.fixturenames:
        makers = all_makers()
        metafunc.parametrize("maker", makers, ids=[maker.scheme for maker in makers])


class Opened:
    """Makes a collection of so many rows; gives the rows and an open connector."""

    def __init__(self, maker, folder, stack):
        self.maker, self.folder, self.stack = maker, folder, stack

    def __call__(self, count=40):
        rows = make_rows(self.maker, count)
        self.address = self.maker.create(self.folder, rows)
        return rows, self.again()

    def again(self):
        """One more connector to it, with the secrets of the first."""
        connector = open_store(self.address)
        self.stack.callback(connector.close)
        return connector


@pytest.fixture
def opened(maker, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Opened(maker, tmp_path, stack)
