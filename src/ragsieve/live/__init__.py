"""A scanned index that documents come to and go from, judged as a scan of all would judge it."""
