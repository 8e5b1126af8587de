"""Which dead letters were sent again: when, by whom, and as which message.

A dead letter cannot be changed, and brokers keep nothing about it. So each resend leaves a message
in a topic of the group, "%SENT%group", which lists the dead letters by their places. Any broker can
store it, and it expires later than they do, because it is younger.
"""

import getpass
import logging
import os
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from roquet.client.admin.messages import messages_between, origin_of, revived
from roquet.client.admin.sending import new_producer
from roquet.client.admin.servers import AdminConfig, AdminServers
from roquet.client.admin.topics import TopicSettings, TopicStatistics, put_topic
from roquet.client.errors import ClientError, SomeFailed, TopicNotFound
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.receipt import SendReceipt
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from roquet.protocol.names import DLQ_PREFIX, RESENT_PREFIX

log = logging.getLogger(__name__)

_TOPIC_SETTINGS: Final = TopicSettings(read_queue_count=1, write_queue_count=1)


class LetterPlace(NamedTuple):
    """Where a dead letter is, in the dead letters of its group."""

    broker_name: str
    queue_id: int
    offset: int

    @classmethod
    def of(cls, dead: ReceivedMessage) -> "LetterPlace":
        return cls(dead.queue.broker_name, dead.queue.queue_id, dead.queue_offset)


@dataclass(frozen=True, slots=True)
class Resent:
    """When and by whom a dead letter was sent again, and the id of the new message."""

    when: datetime
    by: str
    message_id: str


async def resend(
    servers: AdminServers, dead_letters: Sequence[ReceivedMessage]
) -> list[SendReceipt]:
    """Raises BadArgument for a message that is no dead letter, and SomeFailed."""
    again = [revived(dead, servers.user_name(origin_of(dead))) for dead in dead_letters]
    async with new_producer(servers.config) as producer:
        try:
            receipts = await producer.send_many(again)
        except SomeFailed as failed:
            await note_resent(servers, producer, sent_of(dead_letters, failed.outcomes))
            raise
        await note_resent(servers, producer, sent_of(dead_letters, receipts))
        return receipts


class _Letter(msgspec.Struct):
    place: LetterPlace
    message_id: str


class _Note(msgspec.Struct):
    """The body of a message in "%SENT%group"."""

    by: str
    letters: list[_Letter]


async def resent_of(servers: AdminServers, group: str) -> dict[LetterPlace, Resent]:
    """The dead letters of a group that were sent again; the last time counts."""
    try:
        found = await messages_between(servers, RESENT_PREFIX + group, None, None, sys.maxsize)
    except TopicNotFound:
        return {}  # The first resend creates it.
    resent = {}
    for message in found:
        try:
            note = msgspec.json.decode(message.body, type=_Note)
        except msgspec.DecodeError:
            continue  # Not one of ours.
        for letter in note.letters:
            resent[letter.place] = Resent(message.stored, note.by, letter.message_id)
    return resent


def left_count(statistics: TopicStatistics, resent: Iterable[LetterPlace]) -> int:
    """How many dead letters were not sent again, of those that have not expired."""
    firsts = {each.queue[1:]: each.min_offset for each in statistics.queues}
    there = [
        place
        for place in resent
        if place.offset >= firsts.get((place.broker_name, place.queue_id), sys.maxsize)
    ]
    return max(0, statistics.message_count - len(there))


async def note_resent(
    servers: AdminServers,
    producer: AsyncProducer,
    sent: Sequence[tuple[ReceivedMessage, SendReceipt]],
) -> None:
    """Notes what was sent. A failure is logged: the messages are sent all the same."""
    by_group: dict[str, list[_Letter]] = {}
    for dead, receipt in sent:
        group = dead.record.topic.removeprefix(DLQ_PREFIX)
        letter = _Letter(LetterPlace.of(dead), receipt.message_id)
        by_group.setdefault(group, []).append(letter)
    operator = _operator(servers.config)
    for group, letters in by_group.items():
        topic = RESENT_PREFIX + group
        try:
            if await servers.routes.newest(topic, servers.config.timeout_s) is None:
                await put_topic(servers, topic, _TOPIC_SETTINGS)
            body = msgspec.json.encode(_Note(operator, letters))
            await producer.send(Message(servers.user_name(topic), body))
        except ClientError as error:
            log.warning(
                "resent %d dead letters of group %s, but they are not marked as resent: %s",
                len(letters),
                servers.user_name(group),
                error,
            )


def _operator(config: AdminConfig) -> str:
    """The account of the cluster, if there is one, and the user of this machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"user {os.getuid()}"  # A container without names.
    here = f"{user}@{socket.gethostname()}"
    return here if config.credentials is None else f"{config.credentials.access_key}, {here}"


def sent_of(
    dead_letters: Sequence[ReceivedMessage], outcomes: Sequence[SendReceipt | ClientError]
) -> list[tuple[ReceivedMessage, SendReceipt]]:
    """Those that were sent."""
    return [
        (dead, outcome)
        for dead, outcome in zip(dead_letters, outcomes, strict=True)
        if isinstance(outcome, SendReceipt)
    ]
