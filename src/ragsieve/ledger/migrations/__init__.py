"""Steps that bring the tables of older ledgers up to date, applied by `ledger.upgrading`."""
