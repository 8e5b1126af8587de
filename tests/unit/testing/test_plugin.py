"""The fixtures as projects use them: with and without an event loop, and without a price."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

PLAIN_TEST = """
from datetime import timedelta
from roquet import Message, Producer

def test_sends(roquet_cluster, roquet_topic, roquet_clock):
    with Producer(roquet_cluster.name_server, "shop") as producer:
        assert producer.send(Message(roquet_topic, b"hello")).queue.topic == roquet_topic
    roquet_clock.advance(timedelta(hours=1))
    assert roquet_clock is roquet_cluster.clock

def test_has_a_cluster_of_its_own(roquet_cluster, roquet_topic):
    with Producer(roquet_cluster.name_server, "shop") as producer:
        receipt = producer.send(Message(roquet_topic, b"hello"), order_key=0)
        assert receipt.queue_offset == 0
"""

ASYNC_TEST = """
import pytest
from roquet import AsyncProducer, Message

@pytest.mark.asyncio
async def test_sends(roquet_cluster, roquet_topic):
    async with AsyncProducer(roquet_cluster.name_server, "shop") as producer:
        await producer.send(Message(roquet_topic, b"hello"))
"""


def test_tests_without_a_loop_use_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PLAIN_TEST)
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error")
    result.assert_outcomes(passed=2)


def test_tests_with_a_loop_use_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASYNC_TEST)
    result = pytester.runpytest_subprocess("-p", "asyncio", "-W", "error")
    result.assert_outcomes(passed=1)


def test_the_fixtures_explain_themselves(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures")
    result.stdout.fnmatch_lines(["roquet_cluster*", "roquet_topic*", "roquet_clock*"])


def test_whoever_uses_no_fixture_loads_no_server() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import roquet.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded == ["roquet", "roquet.errors", "roquet.testing", "roquet.testing.plugin"]
