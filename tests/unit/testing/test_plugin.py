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


@pytest.mark.slow
def test_tests_without_a_loop_use_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PLAIN_TEST)
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error")
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_tests_with_a_loop_use_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASYNC_TEST)
    result = pytester.runpytest_subprocess("-p", "asyncio", "-W", "error")
    result.assert_outcomes(passed=1)


OPTIONS_TEST = """
import pytest
from roquet import Message, Producer

@pytest.mark.roquet_cluster(brokers=2, settings={"autoCreateTopicEnable": "false"})
def test_has_what_it_asks_for(roquet_cluster):
    assert roquet_cluster.broker_names == ["broker-a", "broker-b"]
    with Producer(roquet_cluster.name_server, "shop") as producer:
        with pytest.raises(Exception):
            producer.send(Message("unknown", b"hello"))

def test_without_a_mark_there_is_one(roquet_cluster):
    assert roquet_cluster.broker_names == ["broker-a"]
"""

SESSION_TEST = """
import pytest
from roquet import Message, Producer

seen = []

@pytest.fixture(scope="session")
def roquet_session_options():
    return {"brokers": 2}

@pytest.mark.parametrize("number", range(3))
def test_topics_are_clean(roquet_session_cluster, roquet_session_topic, number):
    assert roquet_session_cluster.broker_names == ["broker-a", "broker-b"]
    assert roquet_session_cluster.received(roquet_session_topic) == []
    with Producer(roquet_session_cluster.name_server, "shop") as producer:
        producer.send(Message(roquet_session_topic, b"hello"))
    (message,) = roquet_session_cluster.received(roquet_session_topic)
    assert message.body == b"hello"
    seen.append((roquet_session_cluster, roquet_session_topic))
    assert len({topic for _, topic in seen}) == len(seen)
    assert len({id(cluster) for cluster, _ in seen}) == 1
"""


@pytest.mark.slow
def test_a_mark_says_how_many_brokers_there_are_and_their_settings(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(OPTIONS_TEST)
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error", "--strict-markers")
    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_mark_with_a_number_alone_says_nothing_and_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OPTIONS_TEST.replace("brokers=2, ", "2, "))
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-k", "asks_for")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*takes 1 positional argument but 2 *were given")


@pytest.mark.slow
def test_one_cluster_of_a_session_has_a_clean_topic_for_each_test(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(SESSION_TEST)
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-W", "error")
    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_the_fixtures_explain_themselves(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures")
    result.stdout.fnmatch_lines(
        ["roquet_cluster*", "roquet_topic*", "roquet_clock*", "roquet_session_cluster*"]
    )


def test_a_run_without_fixtures_loads_no_server() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import roquet.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded == ["roquet", "roquet.errors", "roquet.testing", "roquet.testing.plugin"]
