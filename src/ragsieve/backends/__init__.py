"""Models behind the ports. Each module wakes one heavy thing, and only when it is called."""
