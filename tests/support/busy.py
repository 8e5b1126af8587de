"""A program that keeps its event loop from running: it computes."""

import time


def busy_for(seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        sum(range(1000))
