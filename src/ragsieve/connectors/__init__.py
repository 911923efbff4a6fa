"""Vector stores: reading all rows, hiding them, bringing them back."""

from ragsieve.connectors.address import StoreAddress, parse_address
from ragsieve.connectors.contract import Connector
from ragsieve.connectors.opening import open_store

__all__ = ["Connector", "StoreAddress", "open_store", "parse_address"]
