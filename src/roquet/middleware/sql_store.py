"""Names of consumed messages in a table, by SQLAlchemy; extra `sqlalchemy`.

    store = SqlStore(engine)
    consumer = PushConsumer(..., middleware=[Idempotent(store)])

    @consumer.on(orders)
    def bill(order: Order) -> None:
        store.connection().execute(bills.insert().values(number=order.number))

The row and what the listener does with `connection()` are one transaction. If the listener raises
or its process ends, both are undone; if the message comes again after that transaction, the row is
there. A second consumer that has the same message at the same time waits for the first one's
transaction, by the primary key.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, final

try:
    from sqlalchemy import Column, Connection, DateTime, Engine, MetaData, String, Table
    from sqlalchemy.exc import IntegrityError
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
except ImportError as error:  # pragma: no cover
    raise ImportError("SqlStore needs SQLAlchemy: pip install 'roquet[sqlalchemy]'") from error

from roquet.client.arguments import bad, check_moment, utc
from roquet.client.errors import BadArgument, NotOpen
from roquet.clock import Clock, SystemClock
from roquet.middleware.idempotent import NAME_SIZE_MAX

TABLE_NAME: Final = "roquet_consumed"


@final
class SqlStore:
    """With an Engine for functions, with an AsyncEngine for coroutines.

    `metadata` is for programs that create their tables themselves, as with Alembic; others call
    `create_table`. Raises BadArgument.
    """

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        *,
        metadata: MetaData | None = None,
        table_name: str = TABLE_NAME,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(engine, Engine | AsyncEngine):
            raise bad("engine", "an Engine or an AsyncEngine of SQLAlchemy", engine)
        self._engine = engine
        self._clock = clock or SystemClock()
        self.table: Final = Table(
            table_name,
            MetaData() if metadata is None else metadata,
            Column("name", String(NAME_SIZE_MAX), primary_key=True),
            Column("consumed_at", DateTime(timezone=True), nullable=False, index=True),
        )
        self._current: ContextVar[Connection | AsyncConnection | None] = ContextVar(
            table_name, default=None
        )

    def create_table(self) -> None:
        """If it does not exist. Raises BadArgument with an AsyncEngine."""
        self.table.create(self._sync_engine(), checkfirst=True)

    async def create_table_async(self) -> None:
        """If it does not exist. Raises BadArgument with an Engine."""
        async with self._async_engine().begin() as connection:
            await connection.run_sync(self.table.create, checkfirst=True)

    def connection(self) -> Connection:
        """The one whose transaction has the row of the current message. For the ORM:
        `Session(store.connection())`. Raises NotOpen outside of a listener."""
        current = self._current.get()
        if not isinstance(current, Connection):
            raise NotOpen("connection of a listener", was_open=False)
        return current

    def connection_async(self) -> AsyncConnection:
        """The same for coroutines."""
        current = self._current.get()
        if not isinstance(current, AsyncConnection):
            raise NotOpen("connection of a listener", was_open=False)
        return current

    def forget(self, before: datetime) -> int:
        """Deletes rows of messages that were consumed before a moment; returns how many. Keep them
        for longer than a message may be redelivered: its retries take up to five hours, and a
        group can be reset to everything that brokers have. Raises BadArgument."""
        check_moment("before", before)
        delete = self.table.delete().where(self.table.c.consumed_at < before)
        with self._sync_engine().begin() as connection:
            return connection.execute(delete).rowcount

    @contextmanager
    def once(self, name: str) -> Iterator[bool]:
        with self._sync_engine().connect() as connection:
            try:
                connection.execute(self.table.insert().values(self._row(name)))
            except IntegrityError:
                connection.rollback()
                yield False
                return
            token = self._current.set(connection)
            try:
                yield True
            finally:
                self._current.reset(token)
            connection.commit()

    @asynccontextmanager
    async def once_async(self, name: str) -> AsyncIterator[bool]:
        async with self._async_engine().connect() as connection:
            try:
                await connection.execute(self.table.insert().values(self._row(name)))
            except IntegrityError:
                await connection.rollback()
                yield False
                return
            token = self._current.set(connection)
            try:
                yield True
            finally:
                self._current.reset(token)
            await connection.commit()

    def check_listener(self, *, is_async: bool) -> None:
        """Raises BadArgument."""
        if is_async:
            self._async_engine()
        else:
            self._sync_engine()

    def _row(self, name: str) -> dict[str, object]:
        return {"name": name, "consumed_at": utc(self._clock.now_ms()).astimezone(UTC)}

    def _sync_engine(self) -> Engine:
        if not isinstance(self._engine, Engine):
            raise BadArgument(
                "a function needs a SqlStore with an Engine, made by create_engine()", "engine"
            )
        return self._engine

    def _async_engine(self) -> AsyncEngine:
        if not isinstance(self._engine, AsyncEngine):
            raise BadArgument(
                "a coroutine needs a SqlStore with an AsyncEngine, made by create_async_engine()",
                "engine",
            )
        return self._engine
