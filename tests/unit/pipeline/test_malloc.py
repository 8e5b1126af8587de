"""That freed memory stays, seen by the pages that the kernel has to bring again."""

import subprocess
import sys

# Filled, given back and taken again, as tasks do with batches; says how often a page was missing.
PROGRAM = """
import resource, sys
from roquet.pipeline.malloc import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def fill():
    pieces = [bytes(1) * (1 << 20) for _ in range(16)]
fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_what_a_batch_gave_back_is_there_for_the_next_one() -> None:
    given_back, kept = (_missing_pages(how) for how in ("given back", "kept"))
    assert kept * 10 < given_back


def _missing_pages(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)
