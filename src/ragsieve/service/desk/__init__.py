"""The review desk: pages for people who decide about findings; a score never decides for them."""
