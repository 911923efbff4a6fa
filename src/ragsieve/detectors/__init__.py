"""Judge: turn evidence into decisions, by named profile."""
