"""`python -m tests.fuzz TARGET SECONDS`: attacks one target, and prints the figures.

An input that breaks the target ends the run with a traceback, and is kept.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS

_INPUT_SIZE_MAX = 16_384
_MEMORY_MB_MAX = 1024
_ONE_INPUT_S_MAX = 10


def main(name: str, seconds: int) -> int:
    directory = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    corpus = directory / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(TARGETS[name].corpus()):
        (corpus / f"{number:05}").write_bytes(seed[:_INPUT_SIZE_MAX])
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_INPUT_SIZE_MAX}",
        f"-rss_limit_mb={_MEMORY_MB_MAX}",
        f"-timeout={_ONE_INPUT_S_MAX}",
        f"-artifact_prefix={directory}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.attacking", name, *options, str(corpus)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.stderr.write(f"{ended.stderr}\nwhat broke {name} is kept in {directory}\n")
        return 1
    shutil.rmtree(directory)
    count, peak_mb = (
        _figure(ended.stderr, each) for each in ("number_of_executed_units", "peak_rss_mb")
    )
    sys.stdout.write(f"{name}: {count} inputs, none broke it, {peak_mb} MB at most\n")
    return 0


def _figure(text: str, name: str) -> str:
    found = re.search(rf"^stat::{name}:\s+(\d+)", text, re.MULTILINE)
    return found[1] if found else "?"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
