"""Constructions of poison, for corpora one owns."""
