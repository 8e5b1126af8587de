"""Rows of a transaction become messages: none lost, none before the commit, each consumed once."""

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from roquet import BadArgument, Message, Producer
from roquet.middleware.sql_store import SqlStore
from roquet.outbox.relay import OutboxRelay
from roquet.testing import BlockingCluster
from tests.support.databases import postgres
from tests.support.eventually import let_run, wait_until
from tests.support.gates import IS_QUICK
from tests.support.outbox_shop import (
    BILL_TABLE,
    METADATA,
    ORDER_TABLE,
    ORDERS,
    OUTBOX,
    Order,
    engine_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("outbox")]

ROOT = Path(__file__).parents[2]
CUSTOMERS = ("ada", "bob", "eve")
ORDER_COUNT = 240
KILL_COUNT = 3 if IS_QUICK else 6


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = engine_of(url)
    SqlStore(engine, metadata=METADATA if "roquet_consumed" not in METADATA.tables else None)
    METADATA.drop_all(engine)
    METADATA.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        cluster.new_topic("orders")
        yield cluster


def place(engine: Engine, number: int, *, is_ordered: bool = True) -> None:
    """One order, with the message about it."""
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    with Session(engine) as session, session.begin():
        session.execute(ORDER_TABLE.insert().values(number=number))
        message = ORDERS(Order(number, customer), keys=(str(number),))
        session.execute(OUTBOX.insert(message, order_key=customer if is_ordered else None))


def row_count(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(OUTBOX.rows)).scalar_one()


def bills(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return sorted(connection.execute(select(BILL_TABLE.c.number)).scalars())


@contextmanager
def process(role: str, url: str, name_server: str) -> Iterator[subprocess.Popen[str]]:
    """Works when the block starts, and is killed at its end."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.support.outbox_shop", role, url, name_server],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == f"{role}\n"
        yield running
    finally:
        running.kill()
        running.wait(60)
        assert running.stdout is not None
        running.stdout.close()


def test_killed_at_random_moments_nothing_is_lost_and_each_order_is_billed_once(
    url: str, engine: Engine, cluster: BlockingCluster
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    placed = 0
    for turn in range(KILL_COUNT):
        for number in range(placed, placed + ORDER_COUNT // KILL_COUNT):
            place(engine, number)
        placed += ORDER_COUNT // KILL_COUNT
        killed = "relay" if turn % 2 else "billing"
        with process(killed, url, cluster.name_server):
            let_run(chance.uniform(0.0, 0.4))
    with (
        process("relay", url, cluster.name_server),
        process("billing", url, cluster.name_server),
    ):
        wait_until(lambda: row_count(engine) == 0, 120)
        wait_until(lambda: len(bills(engine)) >= ORDER_COUNT, 120)
        cluster.consumed("billing", timeout_s=120)
    assert bills(engine) == list(range(ORDER_COUNT))
    assert_order_is_kept(cluster)


def assert_order_is_kept(cluster: BlockingCluster) -> None:
    """Of each customer, a later order is never stored before an earlier one."""
    firsts: dict[str, list[int]] = defaultdict(list)
    for message in sorted(cluster.received("orders"), key=lambda each: each.queue_offset):
        order = ORDERS.decode(message)
        if order.number not in firsts[order.customer]:
            firsts[order.customer].append(order.number)
    assert sum(map(len, firsts.values())) == ORDER_COUNT
    for numbers in firsts.values():
        assert numbers == sorted(numbers)


@pytest.fixture
def relay(engine: Engine, cluster: BlockingCluster) -> Iterator[OutboxRelay]:
    with Producer(cluster.name_server, "shop", message_size_max=100_000) as producer:
        yield OutboxRelay(OUTBOX.table_in(engine), producer, lease_s=30)


def test_what_is_rolled_back_is_never_sent(
    engine: Engine, cluster: BlockingCluster, relay: OutboxRelay
) -> None:
    with Session(engine) as session:
        session.execute(OUTBOX.insert(ORDERS(Order(1, "ada"))))
        session.rollback()
    place(engine, 2)
    assert relay.send_pending() == 1
    assert [ORDERS.decode(each).number for each in cluster.received("orders")] == [2]


def test_a_message_comes_out_as_it_went_in(
    engine: Engine, cluster: BlockingCluster, relay: OutboxRelay
) -> None:
    message = Message("orders", b"\x00\xff", "new", ("k1", "k2"), {"city": "Rom\u00e9"}, 7)
    with engine.begin() as connection:
        connection.execute(OUTBOX.insert(message))
    relay.send_pending()
    (found,) = cluster.received("orders")
    assert (found.body, found.tags, found.keys, found.flag) == (
        b"\x00\xff",
        "new",
        ("k1", "k2"),
        7,
    )
    assert found.properties["city"] == "Rom\u00e9"
    assert len(found.message_id) == 32


def test_one_relay_sends_and_another_one_takes_over(
    engine: Engine, cluster: BlockingCluster, relay: OutboxRelay
) -> None:
    place(engine, 1)
    with Producer(cluster.name_server, "shop") as producer:
        other = OutboxRelay(OUTBOX.table_in(engine), producer)
        assert relay.send_pending() == 1
        place(engine, 2)
        assert other.send_pending() == 0
        relay.stop()
        relay.run_until_stopped()  # Releases its lease.
        assert other.send_pending() == 1


def test_a_row_that_no_broker_takes_stays_and_holds_up_its_key_alone(
    engine: Engine, cluster: BlockingCluster, relay: OutboxRelay, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as connection:
        too_large = Message("orders", b"x" * 200_000)
        connection.execute(OUTBOX.insert(too_large, order_key="ada"))
    place(engine, 0)  # of ada
    place(engine, 1)
    assert relay.send_pending() == 1
    assert relay.send_pending() == 0
    assert "cannot be sent, and stays there" in caplog.text
    with engine.connect() as connection:
        errors = connection.execute(select(OUTBOX.rows.c.error).order_by("number")).scalars().all()
    assert ["message_size_max" in (each or "") for each in errors] == [True, False]
    assert OUTBOX.table_in(engine).retry_failed() == 1


def test_rows_wait_while_no_broker_is_there(
    engine: Engine, cluster: BlockingCluster, relay: OutboxRelay
) -> None:
    place(engine, 1)
    cluster.stop_broker()
    assert relay.send_pending() == 0
    assert row_count(engine) == 1
    cluster.start_broker()
    wait_until(lambda: relay.send_pending() == 1)
    assert row_count(engine) == 0


@pytest.mark.parametrize(
    ("message", "order_key"),
    [(b"bytes", None), (Message("no good", b"x"), None), (Message("orders", b"x"), "")],
)
def test_what_could_never_be_sent_is_no_row(message: Any, order_key: str | None) -> None:
    with pytest.raises(BadArgument):
        OUTBOX.insert(message, order_key=order_key)


def test_a_relay_ends_with_sigterm(url: str, engine: Engine, cluster: BlockingCluster) -> None:
    place(engine, 1)
    with process("relay", url, cluster.name_server) as running:
        wait_until(lambda: row_count(engine) == 0)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
