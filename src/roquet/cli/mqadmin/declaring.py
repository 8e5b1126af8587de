"""How a command of Apache's mqadmin is declared: its flags, and what it stands for."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Generic, NamedTuple, TypeVar

from roquet.cli.admin_commands.commands import (
    Act,
    Session,
    brokers_named,
    until_stopped,
)
from roquet.cli.admin_commands.failures import DONE, NOT_FOUND, Failed, failure_of
from roquet.cli.argument_types import moment, whole_number
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.errors import ClientError

_JAVA_TIME: Final = "%Y-%m-%d#%H:%M:%S:%f"

Words = list[str]
T = TypeVar("T")


class Flag(NamedTuple):
    """A switch has no value; `kind` reads that of others. `to` is its member of what was given."""

    letter: str
    name: str
    is_required: bool = False
    is_switch: bool = False
    kind: Callable[[str], object] = str
    default: object = None
    to: str | None = None

    def define(self, parser: ArgumentParser) -> None:
        names = (f"-{self.letter}", f"--{self.name}")
        if self.is_switch:
            parser.add_argument(*names, dest=self.to or self.name, action="store_true")
            return
        parser.add_argument(
            *names,
            dest=self.to or self.name,
            required=self.is_required,
            type=self.kind,
            default=self.default,
            metavar=self.name.upper(),
        )


class Command(NamedTuple):
    """`does` returns the words of a command of ours, or what the command does itself."""

    summary: str
    flags: Sequence[Flag]
    does: Callable[[Namespace], Words | Act]


def own(act: Act) -> Callable[[Namespace], Act]:
    return lambda _: act


def truth(text: str) -> bool:
    """As Java reads it."""
    return text.strip().lower() == "true"


def java_moment(text: str) -> datetime:
    """In Java's format, or any that our commands accept. Raises ArgumentTypeError."""
    try:
        return datetime.strptime(text, _JAVA_TIME).astimezone()
    except ValueError:
        return moment(text)


TOPIC: Final = Flag("t", "topic", is_required=True)
BROKER: Final = Flag("b", "brokerAddr")
THE_BROKER: Final = Flag("b", "brokerAddr", is_required=True)
CLUSTER: Final = Flag("c", "clusterName")
INTERVAL: Final = Flag("i", "interval", kind=whole_number(1))


def option(name: str, value: object) -> Words:
    return [] if value is None else [name, str(value)]


def where(given: Namespace) -> Words:
    return option("--broker", given.brokerAddr) + option("--cluster", given.clusterName)


async def masters_where(session: Session, cluster: str | None) -> list[BrokerInfo]:
    """The masters of a cluster, or all. Raises Failed."""
    known = await session.admin.brokers(with_state=False)
    found = [each for each in known if each.is_master and cluster in (None, each.cluster)]
    if not found:
        clusters = ", ".join(sorted({each.cluster for each in known})) or "none"
        wanted = "" if cluster is None else f" in cluster {cluster!r}"
        text = f"no master is registered{wanted}; registered clusters: {clusters}"
        raise Failed(text, NOT_FOUND)
    return found


async def brokers_where(
    session: Session, cluster: str | None, broker: str | None
) -> list[BrokerInfo]:
    """The broker at an address, or the masters of a cluster, or all masters. Raises Failed."""
    if broker is not None:
        return (await brokers_named(session, broker))[:1]
    return await masters_where(session, cluster)


class Answers(NamedTuple, Generic[T]):
    """With the exit code of a command that shows them."""

    answers: list[tuple[BrokerInfo, T]]
    exit_code: int


async def of_each(
    session: Session, brokers: Sequence[BrokerInfo], ask: Callable[[BrokerInfo], Awaitable[T]]
) -> Answers[T]:
    """Of those that answer, all asked at the same time; those that do not are reported."""
    outcomes = await asyncio.gather(*map(ask, brokers), return_exceptions=True)
    answers = []
    exit_code = DONE
    for broker, outcome in zip(brokers, outcomes, strict=True):
        if not isinstance(outcome, BaseException):
            answers.append((broker, outcome))
        elif isinstance(outcome, ClientError) and len(brokers) > 1:
            session.reporter.say(f"{broker.broker_name} did not answer: {outcome}")
            exit_code = failure_of(outcome, session.access).exit_code
        else:
            raise outcome
    return Answers(answers, exit_code)


async def every(interval_s: int | None, show: Callable[[], Awaitable[int]]) -> int:
    """Once, or with an interval until SIGINT or SIGTERM. Returns the exit code."""
    if interval_s is None:
        return await show()

    async def repeat() -> None:
        while True:
            await show()
            await asyncio.sleep(interval_s)

    await until_stopped(repeat())
    return DONE
