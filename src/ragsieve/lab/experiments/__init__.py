"""Claims as files: cells that are run once, kept, and reported."""
