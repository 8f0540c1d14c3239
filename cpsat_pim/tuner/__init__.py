"""The hardware itself: the best machine of a space under an area limit, with a lower bound (docs/tuner.md)."""
