"""The only room that knows labels: material, measures and the demonstration built on them."""
