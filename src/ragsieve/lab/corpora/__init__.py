"""Corpora with questions, targets and labels, from files or from what is installed."""
