"""From scores of an operator's own traffic to thresholds, with what is not known about them."""
