"""`python -m tests.fuzz TARGET SECONDS`: attacks one target, and says what came of it.

libFuzzer's figures come last: how many inputs, how fast, and the most memory. An input that breaks the
target ends the run with a traceback, and stays in the directory that the first line names.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["roquet"]):
    from roquet.protocol.errors import ProtocolError
    from tests.fuzz.targets import TARGETS

# What a reader may allocate for inputs of this size, with all that Python is besides.
_INPUT_SIZE_MAX = 16_384
_MEMORY_MB_MAX = 1024
_ONE_INPUT_S_MAX = 10


def main(name: str, seconds: int) -> None:
    target = TARGETS[name]

    def attack(data: bytes) -> None:
        try:
            target.attack(data)
        except ProtocolError:
            return

    directory = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    corpus = directory / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.corpus()):
        (corpus / f"{number:05}").write_bytes(seed[:_INPUT_SIZE_MAX])
    sys.stderr.write(f"what breaks it is kept in {directory}\n")
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_INPUT_SIZE_MAX}",
        f"-rss_limit_mb={_MEMORY_MB_MAX}",
        f"-timeout={_ONE_INPUT_S_MAX}",
        f"-artifact_prefix={directory}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], attack)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
