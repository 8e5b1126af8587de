"""What Kombu calls: a transport, its channels, and messages for their consumers.

Exchanges do not route here: `mapping` says where a message goes, and queues subscribe to it.
"""

from queue import Empty
from typing import Any, Final

from kombu.exceptions import ChannelError
from kombu.transport import virtual

from roquet import __version__
from roquet.client.config import Credentials
from roquet.client.errors import (
    ClientError,
    NoBroker,
    NoNameServer,
    SendError,
    Unreachable,
)
from roquet.kombu.consuming import QUEUE_FIELD
from roquet.kombu.link import Link, LinkSettings
from roquet.kombu.mapping import Binding, binding_of, exchange_topic, queue_topic, tag_of

DEFAULT_PORT: Final = 9876

_OPTIONS: Final = {
    "name_server": "name_server",
    "namespace": "namespace",
    "tls": "tls",
    "queue_prefix": "prefix",
    "queue_count": "queue_count",
    "visibility_timeout": "visibility_timeout_s",
}


class QoS(virtual.QoS):  # type: ignore[misc]  # Kombu ships no types.
    """Messages that a channel has and did not acknowledge; the link counts them."""

    def ack(self, delivery_tag: str) -> None:
        self.channel.link.finish(delivery_tag)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if requeue:
            super().reject(delivery_tag, requeue=True)
        else:
            self.channel.link.send_to_dlq(delivery_tag)
            super().ack(delivery_tag)


class Channel(virtual.Channel):  # type: ignore[misc]
    """Declares queues and bindings, sends, and acknowledges."""

    QoS = QoS
    supports_fanout = True

    @property
    def link(self) -> Link:
        link: Link = self.connection.link
        return link

    # Queues.

    def _new_queue(self, queue: str, **options: Any) -> None:
        if options.get("auto_delete") or options.get("exclusive"):
            self.link.declare_transient(queue)
        elif not self.link.is_transient(queue):
            self.link.create_topic(self._topic(queue), self.link.settings.queue_count)

    def _has_queue(self, queue: str, **_options: Any) -> bool:
        return self.link.is_transient(queue) or self.link.has_topic(self._topic(queue))

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **_options: Any,
    ) -> None:
        """Raises ChannelError for a binding that RocketMQ cannot have."""
        exchange = exchange or "amq.direct"
        kind = self.typeof(exchange).type
        if is_queue_itself(kind, exchange, routing_key):
            if queue != exchange:
                raise ChannelError(
                    f"queue {queue!r} cannot be bound to direct exchange {exchange!r} with that "
                    "routing key, which is the address of the queue of that name: use another key"
                )
        else:
            binding = self._binding(exchange, routing_key)
            if self.link.is_transient(queue):
                self.link.bind_transient(queue, binding)
            else:
                self.link.bind(self._topic(queue), binding)
        self.state.binding_declare(queue, exchange, routing_key, arguments)

    def queue_delete(
        self,
        queue: str,
        if_unused: bool = False,  # noqa: ARG002  RocketMQ does not know it.
        if_empty: bool = False,
        **_options: Any,
    ) -> None:
        if self.link.is_transient(queue):
            self.link.delete_transient(queue)
        elif not (if_empty and self._size(queue)):
            self.link.delete_queue(self._topic(queue))
        self.state.queue_bindings_delete(queue)

    def _size(self, queue: str) -> int:
        return 0 if self.link.is_transient(queue) else self.link.waiting_count(self._topic(queue))

    def _purge(self, queue: str) -> int:
        return 0 if self.link.is_transient(queue) else self.link.purge(self._topic(queue))

    # Sending.

    def basic_publish(
        self, message: dict[str, Any], exchange: str, routing_key: str, **_options: Any
    ) -> None:
        self._inplace_augment_message(message, exchange, routing_key)
        self._publish(message, exchange or "", routing_key or "")

    def _publish(self, message: dict[str, Any], exchange: str, routing_key: str) -> None:
        if not exchange or is_queue_itself(self.typeof(exchange).type, exchange, routing_key):
            self._put(routing_key, message)
        else:
            topic = exchange_topic(exchange, self.link.settings.prefix)
            self.link.create_topic(topic, 1)
            self.link.send(topic, message, tag_of(routing_key))

    def _put(self, queue: str, message: dict[str, Any], **_options: Any) -> None:
        self.link.send_to_queue(self._topic(queue), queue, message)

    def _restore(self, message: Any) -> None:
        """To the end of the queue that it came from, not to all that its exchange has."""
        payload = message.serializable()
        payload["redelivered"] = True
        self._put(message.delivery_info[QUEUE_FIELD], payload)
        # Sent before it is finished: a crash in between repeats it, and loses nothing.
        self.link.finish(message.delivery_tag)

    # Consuming.

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Any,
        consumer_tag: str,
        **options: Any,
    ) -> None:
        super().basic_consume(queue, no_ack, callback, consumer_tag, **options)
        self.link.consume(
            (self.channel_id, queue), self._topic(queue), self._bindings(queue), no_ack=no_ack
        )

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None:
            self.link.cancel((self.channel_id, queue))

    def basic_qos(
        self,
        prefetch_size: int = 0,
        prefetch_count: int = 0,
        apply_global: bool = False,
    ) -> None:
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.link.limit(self.channel_id, prefetch_count)

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002
        key = (self.channel_id, queue)
        if self.link.get(key, self._topic(queue), self._bindings(queue), no_ack=False):
            delivery = self.link.pipe.take(0)
            if delivery is not None:
                return delivery.payload
        raise Empty

    # Names.

    def _topic(self, queue: str) -> str:
        return queue_topic(queue, self.link.settings.prefix)

    def _binding(self, exchange: str, routing_key: str) -> Binding:
        topic = exchange_topic(exchange, self.link.settings.prefix)
        try:
            return binding_of(self.typeof(exchange).type, topic, routing_key)
        except ValueError as error:
            raise ChannelError(str(error)) from None

    def _bindings(self, queue: str) -> list[Binding]:
        return [
            self._binding(each.exchange, each.routing_key)
            for each in self.state.queue_bindings(queue)
            if not is_queue_itself(self.typeof(each.exchange).type, each.exchange, each.routing_key)
        ]


class Transport(virtual.Transport):  # type: ignore[misc]
    """A connection: `rocketmq://host:port//`, or with an account and a namespace
    `rocketmq://access-key:secret-key@host:port/namespace`.

    `transport_options` are `visibility_timeout` in seconds (3600), `queue_count` of new topics
    (16), `queue_prefix`, `namespace`, `tls`, and `name_server` for several of them, joined by
    semicolons.
    """

    Channel = Channel
    # As exchanges are declared by one connection and used by others.
    state = virtual.base.BrokerState()
    default_port = DEFAULT_PORT
    driver_type = "rocketmq"
    driver_name = "roquet"
    connection_errors = (
        *virtual.Transport.connection_errors,
        NoBroker,
        NoNameServer,
        SendError,
        Unreachable,
    )
    channel_errors = (*virtual.Transport.channel_errors, ClientError)
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"})
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        self.state = type(self).state
        self.link: Link | None = None
        self._hub: Any = None

    def driver_version(self) -> str:
        return __version__

    def establish_connection(self) -> Any:
        """Raises NoNameServer, or BadArgument for options."""
        self.link = Link(link_settings(self.client))
        self.link.open()
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        if self.link is not None:
            if self._hub is not None:
                self.unregister_from_event_loop(connection, self._hub)
            self.link.close()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # noqa: ARG002
        """Delivers one message. Raises TimeoutError, which is also socket.timeout."""
        assert self.link is not None
        delivery = self.link.pipe.take(timeout)
        if delivery is None:
            raise TimeoutError
        self._deliver(delivery.payload, delivery.queue)

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        assert self.link is not None
        self._hub = loop
        loop.add_reader(self.link.pipe.fileno(), self._on_readable, connection)

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:  # noqa: ARG002
        assert self.link is not None
        self._hub = None
        loop.remove_reader(self.link.pipe.fileno())

    def _on_readable(self, connection: Any) -> None:
        try:
            while True:
                self.drain_events(connection, timeout=0)
        except TimeoutError:
            pass


def link_settings(client: Any) -> LinkSettings:
    """Of a Kombu connection. Raises BadArgument."""
    options = {
        name: client.transport_options[option]
        for option, name in _OPTIONS.items()
        if option in client.transport_options
    }
    address = f"{client.hostname or '127.0.0.1'}:{client.port or DEFAULT_PORT}"
    options.setdefault("name_server", address)
    if (namespace := (client.virtual_host or "").strip("/")) and "namespace" not in options:
        options["namespace"] = namespace
    if client.userid:
        options["credentials"] = Credentials(client.userid, client.password or "")
    return LinkSettings(**options)


def is_queue_itself(exchange_type: str, exchange: str, routing_key: str) -> bool:
    """Whether that address is the queue of the same name, as Celery declares its queues."""
    return exchange_type == "direct" and exchange == routing_key
