"""Frameworks whose pipelines the filter and the gate stand in; one module each, one extra each."""
