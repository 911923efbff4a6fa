"""The filter and the gate behind HTTP: typed, versioned, bounded, closed to strangers."""
