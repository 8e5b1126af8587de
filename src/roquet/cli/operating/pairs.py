"""NAME=VALUE, and BROKER:QUEUE, as options have them."""

from argparse import ArgumentTypeError

from roquet.client.queue_ref import QueueRef


def pair(text: str) -> tuple[str, str]:
    """Raises ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def queue_place(text: str) -> tuple[str, int]:
    """The name of a broker and the number of a queue. Raises ArgumentTypeError."""
    broker_name, _, number = text.rpartition(":")
    if not broker_name or not (number.isascii() and number.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not BROKER:QUEUE, such as broker-a:0")
    return broker_name, int(number)


def queue_at(topic: str, place: tuple[str, int]) -> QueueRef:
    return QueueRef(topic, *place)
