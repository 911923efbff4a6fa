"""Hiding, releasing, deleting and bringing back: in the ledger first, then in the store."""
