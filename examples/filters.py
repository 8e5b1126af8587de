"""Filters that are applied by the broker.

Start a cluster first: `roquet up`. Tags work everywhere; for SQL92 a broker needs the setting
`enablePropertyFilter`, which is switched on here.
"""

import sys

from rich.console import Console

from roquet import Admin, Message, Producer, PullConsumer, StartFrom

console = Console()
OFFERS = (("coffee", 240), ("coffee", 310), ("tea", 190), ("cake", 420))


def read(name_server: str, group: str, *, tags: str | None = None, sql: str | None = None) -> str:
    consumer = PullConsumer(name_server, group, start_from=StartFrom.FIRST)
    consumer.subscribe("offers", tags=tags, sql=sql)
    bodies: list[bytes] = []
    with consumer:
        while messages := consumer.poll(timeout_s=0.5):
            bodies += [message.body for message in messages]
    return b", ".join(sorted(bodies)).decode()


def main(name_server: str) -> None:
    with Admin(name_server) as admin:
        for broker in admin.brokers():
            admin.update_broker_config(broker.address, {"enablePropertyFilter": "true"})
    with Producer(name_server, group="market") as producer:
        for name, cents in OFFERS:
            body = f"{name} {cents / 100:.2f}".encode()
            producer.send(Message("offers", body, tags=name, properties={"cents": str(cents)}))
    console.print("by tags:", read(name_server, "thirsty", tags="coffee || tea"))
    console.print("by SQL: ", read(name_server, "thrifty", sql="cents < 300 AND TAGS <> 'tea'"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876")
