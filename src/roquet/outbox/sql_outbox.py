"""An outbox in any database of SQLAlchemy; extra `sqlalchemy`.

    outbox = SqlOutbox(metadata)

    with Session(engine) as session, session.begin():
        session.add(order)
        session.execute(outbox.insert(orders(Order(7, "coffee")), order_key="7"))

    OutboxRelay(outbox.table_in(engine), producer).run()

The row is part of the transaction: both are there, or neither. `insert` is a statement, so sessions
and connections, also those for asyncio, execute it like any other.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final, final

try:
    from sqlalchemy import (
        BigInteger,
        Column,
        Engine,
        Index,
        Insert,
        Integer,
        LargeBinary,
        MetaData,
        String,
        Table,
        Text,
        delete,
        insert,
        or_,
        select,
        update,
    )
    from sqlalchemy.exc import IntegrityError
except ImportError as error:  # pragma: no cover
    raise ImportError("SqlOutbox needs SQLAlchemy: pip install 'roquet[sqlalchemy]'") from error

from roquet.client.arguments import bad
from roquet.clock import Clock, SystemClock
from roquet.outbox.rows import (
    ERROR_SIZE_MAX,
    NAME_SIZE_MAX,
    OutboxRow,
    columns_of,
    message_of,
)
from roquet.protocol.messages.message import Message

TABLE_NAME: Final = "roquet_outbox"

# SQLite counts up by itself only in a column of its own type.
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")


@final
class SqlOutbox:
    """Two tables of `metadata`: the rows, and which relay sends them. Create them as you create
    your other tables. Raises BadArgument.

    For example:

        metadata = MetaData()
        outbox = SqlOutbox(metadata)
        metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(outbox.insert(Message("orders", b"one coffee")))
    """

    def __init__(self, metadata: MetaData, *, table_name: str = TABLE_NAME) -> None:
        if not isinstance(metadata, MetaData):
            raise bad("metadata", "a MetaData of SQLAlchemy", metadata)
        self.rows: Final = Table(
            table_name,
            metadata,
            Column("number", _NUMBER, primary_key=True, autoincrement=True),
            Column("message_id", String(NAME_SIZE_MAX), nullable=False),
            Column("topic", String(NAME_SIZE_MAX), nullable=False),
            Column("body", LargeBinary, nullable=False),
            Column("tags", Text),
            Column("message_keys", Text, nullable=False),
            Column("properties", Text, nullable=False),
            Column("flag", Integer, nullable=False),
            Column("order_key", String(NAME_SIZE_MAX)),
            Column("error", String(ERROR_SIZE_MAX)),
            Index(f"{table_name}_order_key", "order_key"),
            # A number that was used once never comes back.
            sqlite_autoincrement=True,
        )
        self.relays: Final = Table(
            f"{table_name}_relay",
            metadata,
            Column("name", String(NAME_SIZE_MAX), primary_key=True),
            Column("owner", String(NAME_SIZE_MAX), nullable=False),
            Column("until_ms", BigInteger, nullable=False),
        )

    def insert(self, message: Message, *, order_key: str | None = None) -> Insert:
        """The statement that adds a message. Those with the same `order_key` are sent in their
        order, to one queue. Raises BadArgument."""
        return insert(self.rows).values(columns_of(message, order_key))

    def table_in(self, engine: Engine) -> "SqlOutboxTable":
        """What a relay works on. Raises BadArgument."""
        return SqlOutboxTable(self, engine)


@final
class SqlOutboxTable:
    """The rows of an outbox in one database, for its relay."""

    def __init__(self, outbox: SqlOutbox, engine: Engine, clock: Clock | None = None) -> None:
        if not isinstance(engine, Engine):
            raise bad("engine", "an Engine of SQLAlchemy, as made by create_engine()", engine)
        self._engine = engine
        self._rows = outbox.rows
        self._relays = outbox.relays
        self._clock = clock or SystemClock()

    def lease(self, owner: str, duration_s: float) -> bool:
        now_ms = self._clock.now_ms()
        relays, name = self._relays, self._rows.name
        lease: dict[str, Any] = {"owner": owner, "until_ms": now_ms + round(duration_s * 1000)}
        is_free = or_(relays.c.owner == owner, relays.c.until_ms < now_ms)
        with self._engine.begin() as connection:
            taken = connection.execute(
                update(relays).where(relays.c.name == name, is_free).values(lease)
            )
            if taken.rowcount:
                return True
            if connection.execute(select(relays.c.name).where(relays.c.name == name)).first():
                return False
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(relays).values(name=name, **lease))
        except IntegrityError:
            return False  # Another one was the first.
        return True

    def release(self, owner: str) -> None:
        relays = self._relays
        mine = (relays.c.name == self._rows.name, relays.c.owner == owner)
        with self._engine.begin() as connection:
            connection.execute(update(relays).where(*mine).values(until_ms=0))

    def pending(self, count_max: int) -> Sequence[OutboxRow]:
        rows = self._rows
        held_up = select(rows.c.order_key).where(
            rows.c.error.is_not(None), rows.c.order_key.is_not(None)
        )
        query = (
            select(rows)
            .where(
                rows.c.error.is_(None),
                or_(rows.c.order_key.is_(None), rows.c.order_key.not_in(held_up)),
            )
            .order_by(rows.c.number)
            .limit(count_max)
        )
        with self._engine.connect() as connection:
            found = connection.execute(query).all()
        return [OutboxRow(row.number, message_of(row), row.order_key) for row in found]

    def delete(self, numbers: Collection[int]) -> None:
        with self._engine.begin() as connection:
            connection.execute(delete(self._rows).where(self._rows.c.number.in_(numbers)))

    def fail(self, number: int, error: str) -> None:
        self._set_error([number], error[:ERROR_SIZE_MAX])

    def retry_failed(self) -> int:
        """Rows with an error are sent again; returns how many there were."""
        return self._set_error(None, None)

    def _set_error(self, numbers: Collection[int] | None, error: str | None) -> int:
        rows = self._rows
        which = rows.c.error.is_not(None) if numbers is None else rows.c.number.in_(numbers)
        with self._engine.begin() as connection:
            return connection.execute(update(rows).where(which).values(error=error)).rowcount
