"""Programs that consume until they are stopped."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from roquet import AsyncPushConsumer, PushConsumer
from roquet.client.blocking.consumers import stop_signals
from roquet.client.errors import BadArgument, NothingToRead
from roquet.testing import BlockingCluster

BLOCKING = """
import sys
from roquet import Message, Producer, PushConsumer

with Producer(sys.argv[1], "shop") as producer:
    producer.send(Message("orders", b"one coffee"), timeout_s=30)
consumer = PushConsumer(sys.argv[1], "billing")

@consumer.on("orders")
def bill(message):
    print("billed", message.body, flush=True)

consumer.run()
print("closed", flush=True)
"""
ASYNC = BLOCKING.replace("PushConsumer", "AsyncPushConsumer").replace(
    "consumer.run()", "import asyncio; asyncio.run(consumer.run())"
)
assert ASYNC != BLOCKING


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        yield cluster


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
@pytest.mark.parametrize("program", [BLOCKING, ASYNC], ids=["blocking", "async"])
@pytest.mark.slow
def test_a_program_consumes_until_a_signal_and_closes_in_order(
    cluster: BlockingCluster, program: str, number: signal.Signals
) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", program, cluster.name_server], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    try:
        assert running.stdout.readline() == "billed b'one coffee'\n"
        running.send_signal(number)
        printed, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert (printed, running.returncode) == ("closed\n", 0)


@pytest.mark.parametrize("kind", ["function", "coroutine"])
@pytest.mark.parametrize("program", [BLOCKING, ASYNC], ids=["blocking", "async"])
@pytest.mark.slow
def test_a_listener_that_exits_ends_the_program_with_its_status(
    cluster: BlockingCluster, program: str, kind: str
) -> None:
    group = f"exits-{kind}-{'async' if program is ASYNC else 'blocking'}"
    program = program.replace('"billing"', f'"{group}", start_from=StartFrom.FIRST')
    program = program.replace("import Message", "import Message, StartFrom")
    program = program.replace("    print(", "    raise SystemExit(3)\n    print(")
    if kind == "coroutine":
        program = program.replace("def bill", "async def bill")
    ended = subprocess.run(
        [sys.executable, "-c", program, cluster.name_server],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("", 3), ended.stderr


@pytest.fixture
def _interrupts() -> Iterator[None]:
    """Python's handler of SIGINT, also where a shell started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_a_second_signal_does_what_it_always_did() -> None:
    with stop_signals(print) as gate:
        os.kill(os.getpid(), signal.SIGINT)
        gate.wait()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_are_for_the_main_thread() -> None:
    refused = []

    def run() -> None:
        consumer = PushConsumer("127.0.0.1:1", "g", print)
        consumer.subscribe("t")
        try:
            consumer.run()
        except BadArgument as error:
            refused.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert refused == ["run() needs the main thread, which gets signals; in others use `with`"]


async def test_nothing_is_run_that_would_do_nothing() -> None:
    with pytest.raises(NothingToRead, match="no listener: give it one"):
        PushConsumer("127.0.0.1:1", "g").run()
    with pytest.raises(NothingToRead):
        await AsyncPushConsumer("127.0.0.1:1", "g", print).run()
