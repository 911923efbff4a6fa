"""Neighbour graphs by approximate search, with what is known about what they miss."""
