"""Consumed messages in a table: one transaction with what the listener does."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from roquet import BadArgument, NotOpen, ReceivedMessage
from roquet.client.middleware import surrounded
from roquet.middleware import Idempotent
from roquet.middleware.sql_store import SqlStore
from tests.support.delivered import delivered
from tests.support.raising import raises

BILLS = Table("bills", MetaData(), Column("number", Integer))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'bills.db'}")
    BILLS.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def store(engine: Engine) -> SqlStore:
    store = SqlStore(engine)
    store.create_table()
    return store


def bills(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(select(BILLS.c.number)).scalars())


def once(store: SqlStore, listener: Any) -> Any:
    return surrounded(listener, [Idempotent(store)], "billing")


def test_the_listener_shares_the_transaction(engine: Engine, store: SqlStore) -> None:
    def bill(message: ReceivedMessage) -> None:
        store.connection().execute(BILLS.insert().values(number=int(message.body)))
        if int(message.body) == 13 and not message.retry_count:
            raise KeyError("unlucky")

    listen = once(store, bill)
    with pytest.raises(KeyError):
        listen(delivered(b"13"))
    assert bills(engine) == []
    listen(delivered(b"13", retry_count=1))
    listen(delivered(b"13", retry_count=2))
    assert bills(engine) == [13]


def test_a_session_of_the_orm_joins_it(engine: Engine, store: SqlStore) -> None:
    def bill(message: ReceivedMessage) -> None:
        with Session(store.connection()) as session:
            session.execute(BILLS.insert().values(number=int(message.body)))
            session.commit()
        raise KeyError("after the commit of the session")

    with pytest.raises(KeyError):
        once(store, bill)(delivered(b"1"))
    assert bills(engine) == []


async def test_coroutines_use_an_async_engine(tmp_path: Path) -> None:
    path = tmp_path / "bills.db"
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    store = SqlStore(engine)
    await store.create_table_async()
    async with engine.begin() as connection:
        await connection.run_sync(BILLS.create)

    async def bill(message: ReceivedMessage) -> None:
        await store.connection_async().execute(BILLS.insert().values(number=int(message.body)))

    listen = once(store, bill)
    await listen(delivered(b"1"))
    await listen(delivered(b"1"))
    async with engine.connect() as connection:
        assert list((await connection.execute(select(BILLS.c.number))).scalars()) == [1]
    await engine.dispose()


def test_the_wrong_kind_of_engine_is_refused_before_the_first_message(store: SqlStore) -> None:
    async def bill(message: ReceivedMessage) -> None: ...

    with raises(BadArgument, argument="engine"):
        once(store, bill)
    with raises(BadArgument, argument="engine"):
        once(SqlStore(create_async_engine("sqlite+aiosqlite://")), print)


def test_there_is_no_connection_outside_of_a_listener(store: SqlStore) -> None:
    with pytest.raises(NotOpen):
        store.connection()
    with pytest.raises(NotOpen):
        store.connection_async()


def test_old_names_are_forgotten(store: SqlStore) -> None:
    once(store, lambda _message: None)(delivered())
    assert store.forget(datetime.now(UTC) - timedelta(days=1)) == 0
    assert store.forget(datetime.now(UTC) + timedelta(seconds=1)) == 1
    with raises(BadArgument, argument="before"):
        store.forget(datetime(2024, 1, 1))  # noqa: DTZ001


def test_what_is_no_engine_is_refused() -> None:
    with raises(BadArgument, argument="engine"):
        SqlStore("sqlite://")  # type: ignore[arg-type]
