"""A live system under changing load and random kills, for as long as it is asked to."""
