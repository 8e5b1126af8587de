"""Real bytes break nothing, and with ROQUET_LONG neither does what atheris makes of them."""

import os
import shlex
import subprocess
import sys

import pytest

from roquet.protocol.errors import ProtocolError
from tests.fuzz.targets import TARGETS

LONG_S = 60


@pytest.mark.parametrize("name", TARGETS)
def test_attacks_start_with_real_bytes(name: str) -> None:
    taken_count = 0
    for seed in TARGETS[name].corpus():
        try:
            TARGETS[name].attack(seed)
        except ProtocolError:
            continue
        taken_count += 1
    # What is always refused would only ever meet the first check.
    assert taken_count > 0


def test_the_shell_reads_a_name_as_one_word() -> None:
    # `make fuzz` goes through them in a loop.
    assert [each for each in TARGETS if shlex.split(each) != [each]] == []


@pytest.mark.skipif(not os.environ.get("ROQUET_LONG"), reason="takes minutes")
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found_in_a_minute(name: str) -> None:
    pytest.importorskip("atheris")
    subprocess.run([sys.executable, "-m", "tests.fuzz", name, str(LONG_S)], check=True)
