"""A store judged from end to end: read, scanned, decided by the policy, written down."""
