"""`help(roquet.Producer)` is worth reading, and so is that of every other public name.

Examples stand behind "For example:" and are run here, against a cluster. The names of the package
are known to them.
"""

import ast
import asyncio
import inspect
import os
import re
import signal
import textwrap
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest

import roquet
from roquet import Message, Producer
from roquet.testing import BlockingCluster
from tests.support.page_run import USUAL_NAME_SERVER

# What a program makes or calls itself. The rest it is handed, or catches.
WITH_EXAMPLE = {
    *("Producer", "AsyncProducer", "ProducerConfig", "Message", "QueueRef", "SendReceipt"),
    *("Compression", "Credentials", "TlsConfig", "SendHook", "ConsumeHook", "reply_to"),
    *("TransactionProducer", "AsyncTransactionProducer"),
    *("PushConsumer", "AsyncPushConsumer", "PushConsumerConfig", "ReceivedMessage"),
    *("RetryLater", "DeadLetter", "StartFrom", "OffsetStore", "Allocation", "Subscription"),
    *("PopConsumer", "AsyncPopConsumer", "PopConsumerConfig"),
    *("PullConsumer", "AsyncPullConsumer", "PullConsumerConfig", "Pulled"),
    *("Admin", "AsyncAdmin", "AdminConfig"),
    *("TopicReader", "AsyncTopicReader", "TopicReaderConfig"),
    *("Topic", "Codec", "Middleware"),
}
# Rooms are described for their readers; `docs/testing.md` and `docs/spark.md` show them.
ROOMS = {"pipeline", "testing"}
METHODS = [
    (name, member)
    for name in roquet.__all__
    if inspect.isclass(owner := getattr(roquet, name)) and name in WITH_EXAMPLE
    for member, value in inspect.getmembers(owner)
    if not member.startswith("_")
    and inspect.isfunction(value)
    and value.__module__.startswith("roquet.client")
]


def docstring(name: str) -> str:
    """What was written for it; not what it inherits, nor what a dataclass makes up."""
    value = getattr(roquet, name)
    if isinstance(value, ModuleType) or not inspect.isclass(value):
        return inspect.getdoc(value) or ""
    text = inspect.cleandoc(vars(value).get("__doc__") or "")
    return "" if text.startswith(f"{name}(") else text


def example(name: str) -> str:
    _, _, behind = docstring(name).partition("\nFor example:\n")
    return textwrap.dedent(behind)


@pytest.mark.parametrize("name", roquet.__all__)
def test_a_public_name_says_what_it_is(name: str) -> None:
    first, *_ = docstring(name).splitlines() or [""]
    assert re.fullmatch(r"[`A-Z].*\w.*[.;:,\w)]", first), "it needs a docstring"


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_public_method_says_what_it_does(name: str, method: str) -> None:
    assert inspect.getdoc(getattr(getattr(roquet, name), method))


def test_what_programs_make_has_an_example() -> None:
    assert {name for name in roquet.__all__ if name not in ROOMS and example(name)} == WITH_EXAMPLE


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster, Producer(cluster.name_server, "bar") as bar:
        bar.send(Message("orders", b"one coffee", tags="new"))
        yield cluster


@pytest.mark.parametrize("name", sorted(WITH_EXAMPLE))
def test_an_example_works(name: str, cluster: BlockingCluster) -> None:
    text = example(name).replace(USUAL_NAME_SERVER, cluster.name_server)
    if ".run()" in text:
        interrupted_when_consumed(cluster, "billing")
    names: dict[str, Any] = {each: getattr(roquet, each) for each in roquet.__all__}
    names |= {"UTC": UTC, "datetime": datetime, "timedelta": timedelta}
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)  # noqa: S307  It is our own example.
    if inspect.iscoroutine(result):
        asyncio.run(asyncio.wait_for(result, 60))


def interrupted_when_consumed(cluster: BlockingCluster, group: str) -> None:
    """As a user does who has seen enough."""

    def interrupt() -> None:
        cluster.consumed(group)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
