"""A real cluster inside a test: name server and brokers in this process, gone afterwards.

    async with Cluster() as cluster:
        topic = await cluster.new_topic()
        async with AsyncProducer(cluster.name_server, "shop") as producer:
            await producer.send(Message(topic, b"hello"), delay=timedelta(hours=1))
            cluster.clock.advance(timedelta(hours=1))
        await cluster.consumed("billing")
        assert [message.body for message in cluster.received("bills")] == [b"hello"]

`received` makes a message for tests of a listener alone; they need no cluster.
`BlockingCluster` is the same for programs without an event loop. With pytest there are fixtures:
`roquet_cluster`, `roquet_topic`, `roquet_clock` and more, see `plugin.py`.

Duty: start servers for tests of those who use the package.
Dependencies: may import every other package. Nothing is loaded before it is used, because pytest
loads the plugin in every project that has Roquet installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roquet.testing.blocking import BlockingCluster
    from roquet.testing.clock import MovableClock
    from roquet.testing.cluster import Cluster
    from roquet.testing.messages import received
    from roquet.testing.progress import HasDeadLetters, NotConsumed, NotReceived

__all__ = [
    "BlockingCluster",
    "Cluster",
    "HasDeadLetters",
    "MovableClock",
    "NotConsumed",
    "NotReceived",
    "received",
]

_HOMES: Final = {
    "BlockingCluster": "roquet.testing.blocking",
    "Cluster": "roquet.testing.cluster",
    "HasDeadLetters": "roquet.testing.progress",
    "MovableClock": "roquet.testing.clock",
    "NotConsumed": "roquet.testing.progress",
    "NotReceived": "roquet.testing.progress",
    "received": "roquet.testing.messages",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__
