"""Divides: the exact neighbour graph and the texts of a corpus that lies in shards."""
