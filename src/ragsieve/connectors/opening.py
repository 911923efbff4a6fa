"""From an address to an open store; each store's packages are imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import cast

from ragsieve.connectors.address import StoreAddress, parse_address
from ragsieve.connectors.contract import Connector

_MODULES = {"postgresql": "pgvector"}


def open_store(address: StoreAddress | str) -> Connector:
    """Open the collection at an address; nothing is created or changed.

    :param address: as `parse_address` reads it.
    :raises ConfigError: when it cannot be read.
    :raises MissingExtraError: when the store's packages are not installed; names the pip command.
    :raises StoreError: when there is no such store or collection, or it cannot be opened.
    """
    where = parse_address(address) if isinstance(address, str) else address
    name = _MODULES.get(where.scheme, where.scheme)
    module = importlib.import_module(f"ragsieve.connectors.{name}")
    return cast(Connector, module.open_store(where))
