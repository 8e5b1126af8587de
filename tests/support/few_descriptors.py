"""A process that may hardly open anything any more."""

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def few_descriptors_left(count: int) -> Iterator[None]:
    # Stores that earlier tests killed may be garbage with open files: their descriptors must not
    # become free in the middle of the block.
    gc.collect()
    gc.disable()
    # Numbers that are free may lie between those that are taken, so they are tried.
    free = [os.dup(0) for _ in range(count + 1)]
    for each in free:
        os.close(each)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (sorted(free)[count], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        gc.enable()
