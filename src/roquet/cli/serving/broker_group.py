"""Several brokers of one machine as the processes of one command: one start, one stop.

A broker is one event loop, so a second core is for a second broker. Clients see as many brokers as
there are processes, and spread their sends and queues over them. Each has a name, a directory and
ports of its own:

    broker-a-0    DIR/broker-a-0    port 10911
    broker-a-1    DIR/broker-a-1    port 10921

They are forked before anything runs, and share the memory of all that is loaded by then.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from roquet.broker.settings.config import BrokerConfig
from roquet.errors import RoquetError

PROCESS_COUNT_MAX: Final = 64
# A broker takes its port, the one two below and the one above.
PORT_STEP: Final = 10
_SET_PARENT_DEATH_SIGNAL: Final = 1  # of prctl


class GroupMemberFailed(RoquetError):
    """A broker of the group has ended by itself, and the others with it; the log says why."""


def members_of(config: BrokerConfig, count: int) -> list[BrokerConfig]:
    """The settings of each broker of a group."""
    return [_member(config, index) for index in range(count)]


def _member(config: BrokerConfig, index: int) -> BrokerConfig:
    name = f"{config.broker_name}-{index}"
    store = config.store
    log = store.commit_log_directory
    http = config.http_place
    if http is not None and http.port:
        http = http._replace(port=http.port + PORT_STEP * index)
    return replace(
        config,
        broker_name=name,
        http_place=http,
        # 0 is any port, for each of them.
        listen_port=config.listen_port and config.listen_port + PORT_STEP * index,
        store=replace(
            store,
            root=store.root / name,
            commit_log_directory=None if log is None else log / name,
        ),
    )


def run_group(members: list[BrokerConfig], serve: Callable[[BrokerConfig], None]) -> None:
    """Returns in each process when its own part is over. Raises GroupMemberFailed."""
    children: dict[int, str] = {}
    parent_id = os.getpid()
    for member in members:
        child_id = os.fork()
        if not child_id:
            _follow(parent_id)
            serve(member)
            return
        children[child_id] = member.broker_name
    _watch(children, reloads=members[0].has_tls_files)


def _follow(parent_id: int) -> None:
    """This process ends when its parent does, however that ends."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  One broker alone starts faster without it.

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent_id:
        os.kill(os.getpid(), signal.SIGTERM)


def _watch(children: dict[int, str], *, reloads: bool) -> None:
    def stop_all(*_: object) -> None:
        for child_id in children:
            os.kill(child_id, signal.SIGTERM)

    def reload_all(*_: object) -> None:
        for child_id in children:
            os.kill(child_id, signal.SIGHUP)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_all)
    if reloads:
        signal.signal(signal.SIGHUP, reload_all)
    failed: list[str] = []
    while children:
        child_id, status = os.wait()
        name = children.pop(child_id)
        code = os.waitstatus_to_exitcode(status)
        if code:
            failed.append(f"{name} (exit code {code})")
            stop_all()
    if failed:
        raise GroupMemberFailed(f"ended by itself: {', '.join(failed)}")
