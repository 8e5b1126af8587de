"""Programs that end without closing their clients."""

import subprocess
import sys

import pytest

from roquet.testing import BlockingCluster

PROGRAM = """
import sys
from roquet import Message, Producer

producer = Producer(sys.argv[1], "shop")
producer.open()
for number in range(500):
    producer.submit(Message("left-open", b"x"), timeout_s=60)
"""


@pytest.mark.slow
def test_what_was_submitted_is_sent_though_the_program_ends_without_closing() -> None:
    with BlockingCluster() as cluster:
        ended = subprocess.run(
            [sys.executable, "-W", "always", "-c", PROGRAM, cluster.name_server],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        stored_count = len(cluster.received("left-open"))
    assert "messages were in flight, 0 are not sent" in ended.stderr
    assert "ResourceWarning: a producer was left open" in ended.stderr
    assert stored_count == 500
