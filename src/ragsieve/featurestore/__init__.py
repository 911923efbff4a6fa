"""The feature store: what is known about a text alone is computed once and kept on disk."""
