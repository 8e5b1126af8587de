"""Templates of the frames that are written most: filled, instead of built and encoded."""
