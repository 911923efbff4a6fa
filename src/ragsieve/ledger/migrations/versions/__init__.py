"""One module for each step, in the order their revisions tell."""
