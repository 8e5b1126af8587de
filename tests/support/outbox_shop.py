"""A shop with an outbox, and the bills of its orders: processes that a test kills.

    python -m tests.support.outbox_shop relay URL NAME_SERVER
    python -m tests.support.outbox_shop billing URL NAME_SERVER

Each prints a line when it works.
"""

import sys

import msgspec
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, event

from roquet import Producer, PushConsumer, StartFrom, Topic
from roquet.middleware import Idempotent
from roquet.middleware.sql_store import SqlStore
from roquet.outbox.relay import OutboxRelay
from roquet.outbox.sql_outbox import SqlOutbox

GROUP = "billing"


class Order(msgspec.Struct):
    number: int
    customer: str


METADATA = MetaData()
OUTBOX = SqlOutbox(METADATA)
ORDERS = Topic("orders", Order)
ORDER_TABLE = Table("orders", METADATA, Column("number", Integer, primary_key=True))
# No key: a second bill of an order would be seen.
BILL_TABLE = Table(
    "bills", METADATA, Column("number", Integer, nullable=False), Column("customer", String(20))
)


def engine_of(url: str) -> Engine:
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        # Readers and a writer at the same time.
        event.listen(engine, "connect", lambda made, _: made.execute("PRAGMA journal_mode=WAL"))
    return engine


def relay(url: str, name_server: str) -> None:
    with Producer(name_server, "shop") as producer:
        working = OutboxRelay(
            OUTBOX.table_in(engine_of(url)), producer, batch_size=20, interval_s=0.02, lease_s=0.5
        )
        _say("relay")
        working.run()


def billing(url: str, name_server: str) -> None:
    store = SqlStore(engine_of(url), metadata=MetaData())
    consumer = PushConsumer(
        name_server,
        GROUP,
        start_from=StartFrom.FIRST,
        middleware=[Idempotent(store)],
        concurrency=4,
    )

    @consumer.on(ORDERS)
    def bill(order: Order) -> None:
        values = {"number": order.number, "customer": order.customer}
        store.connection().execute(BILL_TABLE.insert().values(values))

    _say("billing")
    consumer.run()


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {"relay": relay, "billing": billing}[sys.argv[1]](*sys.argv[2:])
