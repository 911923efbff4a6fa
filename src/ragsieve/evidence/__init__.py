"""Measure: pure functions on texts, numbers and arrays. No model, no file, no policy."""
