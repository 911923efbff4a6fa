"""From a finding to a measure, by rules that an operator declares."""
