"""Runs a broker until SIGINT or SIGTERM, or several of them as the processes of one command.

A broker is one event loop, so a second core is for a second broker. Clients see as many brokers as
there are processes, and spread their sends and queues over them. Each has a name, a directory and
ports of its own:

    broker-a-0    DIR/broker-a-0    port 10911
    broker-a-1    DIR/broker-a-1    port 10921

They are forked before anything runs, and share the memory of all that is loaded by then.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from roquet.broker.disk_plan import check_room, plan_of, use_text
from roquet.broker.settings.apache_keys import TREATMENTS, doubtful_booleans, read_config
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.supervisor import BrokerSupervisor, supervised_broker
from roquet.cli.serving.grpc_endpoint import grpc_endpoint
from roquet.cli.serving.log_lines import LogForm, log_to_stderr
from roquet.cli.serving.options import (
    home_from_environment,
    reloads_on_hangup,
    tls_from_file,
    warn_of_settings,
)
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.net.loop import raise_file_limit, relax_garbage_collection, run_server, stop_signals
from roquet.protocol.properties_text import read_properties_text
from roquet.settings.options import ConfigError

log = logging.getLogger(__name__)

# As in Apache, where no other place names them.
_NAME_SERVERS: Final = "NAMESRV_ADDR"
_DEFAULT_DIRECTORY: Final = "store"  # in the home directory, as Apache's
PROCESS_COUNT_MAX: Final = 64
# A broker takes its port, the one two below and the one above.
PORT_STEP: Final = 10
# A process that has run this long was up. One that ends earlier repeatedly is started less
# and less often.
_STABLE_S: Final = 30.0
_PAUSE_S_MAX: Final = 60.0
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SET_PARENT_DEATH_SIGNAL: Final = 1  # of prctl


class BrokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command line, which override the file."""

    config_file: Path | None
    name_servers: str | None
    directory: Path | None
    host: str | None
    advertised_host: str | None
    port: int | None
    process_count: int = 1
    is_to_found: bool = False
    # Of access control, TLS and pages, under their names in files.
    settings: dict[str, str] = {}
    log_form: LogForm = LogForm.TEXT


class BrokerFailed(RoquetError):
    """A broker stopped because its disk failed; the reason is in the log."""


def run_broker(options: BrokerOptions) -> None:
    """Returns after SIGINT or SIGTERM.

    Raises BrokerFailed, GroupMemberFailed, NoRoomForStore, OSError, ConfigError, UnsupportedOption,
    BadBody and what `supervised_broker` raises.
    """
    log_to_stderr(options.log_form)
    raise_file_limit()
    config = _config(options)
    if options.process_count == 1:
        check_disk_space([config])
        _run_one(config)
    else:
        members = members_of(config, options.process_count)
        check_disk_space(members)
        run_group(members, _run_one)


def check_disk_space(brokers: Sequence[BrokerConfig]) -> None:
    """Logs the planned disk use of brokers of one disk. Raises NoRoomForStore and OSError."""
    plan = plan_of([each.store for each in brokers], SystemDisk())
    log.info(use_text(plan))
    check_room(plan)


def _run_one(config: BrokerConfig) -> None:
    run_server(_serve(config))


async def until_stopped(stop: asyncio.Event, brokers: Sequence[BrokerSupervisor]) -> None:
    """Returns when the signal comes. Raises BrokerFailed."""
    events = [stop, *(each.has_failed for each in brokers)]
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    for each in brokers:
        if each.has_failed.is_set():
            raise BrokerFailed(f"{each.broker.config.broker_name}: {each.failure}")


def _config(options: BrokerOptions) -> BrokerConfig:
    root = options.directory or Path.home() / _DEFAULT_DIRECTORY
    settings = {}
    if options.config_file is not None:
        settings = read_properties_text(options.config_file.read_bytes())
    if options.name_servers is not None:
        settings["namesrvAddr"] = options.name_servers
    elif _NAME_SERVERS in os.environ:
        settings.setdefault("namesrvAddr", os.environ[_NAME_SERVERS])
    if options.directory is not None:
        settings["storePathRootDir"] = str(options.directory)
    settings |= home_from_environment(settings) | tls_from_file(settings) | options.settings
    config, ignored = read_config(settings, root)
    if options.config_file is not None:
        warn_of_settings(
            options.config_file, ignored, TREATMENTS.__contains__, doubtful_booleans(settings)
        )
    changes: dict[str, Any] = {
        "bind_address": options.host,
        "advertised_host": options.advertised_host,
        "listen_port": options.port,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if options.is_to_found and not config.etcd:
        reason = "requires replication.etcd, whose record of this broker name is lost"
        raise ConfigError("--found", "true", reason)
    return replace(config, is_to_found=options.is_to_found, **given)


async def _serve(config: BrokerConfig) -> None:
    with stop_signals() as stop, reloads_on_hangup(has_files=config.has_tls_files) as reloading:
        clock = SystemClock()
        async with (
            supervised_broker(config, clock, SystemDisk()) as supervisor,
            grpc_endpoint(config.bind_host, config.grpc_port, supervisor, clock),
        ):
            reloading.append(supervisor)
            relax_garbage_collection()
            await until_stopped(stop, [supervisor])


class GroupMemberFailed(RoquetError):
    """A broker of the group could not start, so the others were stopped; the log has the reason."""


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
        grpc_port=config.grpc_port and config.grpc_port + PORT_STEP * index,
        # 0 is any port, for each of them.
        listen_port=config.listen_port and config.listen_port + PORT_STEP * index,
        store=replace(
            store,
            root=store.root / name,
            commit_log_directory=None if log is None else log / name,
        ),
    )


def run_group(members: list[BrokerConfig], serve: Callable[[BrokerConfig], None]) -> None:
    """Returns in each process when its own part is over.

    A broker that exits by itself is started again, and the others go on. Raises GroupMemberFailed
    for one that cannot even start.
    """
    group = _Group(os.getpid(), serve)
    for member in members:
        if group.start(member):
            return
    group.watch(reloads=members[0].has_tls_files)


class _Child(NamedTuple):
    config: BrokerConfig
    started_s: float
    # How often it was started again without a long run in between.
    restart_count: int


@final
class _Group:
    """The processes of one command, as the command sees them."""

    def __init__(self, parent_id: int, serve: Callable[[BrokerConfig], None]) -> None:
        self._parent_id = parent_id
        self._serve = serve
        self._children: dict[int, _Child] = {}
        self._is_stopping = False

    def start(self, member: BrokerConfig, restart_count: int = 0) -> bool:
        """True in the new process, when its part is over."""
        # A signal must neither miss the new child nor run the handlers of the parent in it.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        child_id = None if self._is_stopping else os.fork()
        if child_id:
            self._children[child_id] = _Child(member, time.monotonic(), restart_count)
        elif child_id == 0:
            for number in _PASSED_ON:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        if child_id != 0:
            return False
        _end_with_parent(self._parent_id)
        time.sleep(_pause_s(restart_count))
        self._serve(member)
        return True

    def watch(self, *, reloads: bool) -> None:
        """Until all have ended; in a process that is started again, until its part is over."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        if reloads:
            signal.signal(signal.SIGHUP, self._reload)
        failed: list[str] = []
        while self._children:
            child_id, status = os.wait()
            child = self._children.pop(child_id)
            code = os.waitstatus_to_exitcode(status)
            if self._is_stopping or not code:
                continue
            if _is_never_up(child, code):
                failed.append(f"{child.config.broker_name} (exit code {code})")
                self._stop()
            elif self._start_again(child, code):
                return
        if failed:
            raise GroupMemberFailed(f"exited unexpectedly: {', '.join(failed)}")

    def _start_again(self, child: _Child, code: int) -> bool:
        is_stable = time.monotonic() - child.started_s >= _STABLE_S
        restart_count = 1 if is_stable else child.restart_count + 1
        log.error(
            "%s exited unexpectedly (exit code %d): it is started again in %g s, the other brokers"
            " go on",
            child.config.broker_name,
            code,
            _pause_s(restart_count),
        )
        return self.start(child.config, restart_count)

    def _stop(self, *_: object) -> None:
        self._is_stopping = True
        for child_id in self._children:
            os.kill(child_id, signal.SIGTERM)

    def _reload(self, *_: object) -> None:
        for child_id in self._children:
            os.kill(child_id, signal.SIGHUP)


def _is_never_up(child: _Child, code: int) -> bool:
    """Whether a mistake of the operator ended it: it logged that and exited right away."""
    is_young = time.monotonic() - child.started_s < _STABLE_S
    return code > 0 and is_young and not child.restart_count


def _pause_s(restart_count: int) -> float:
    return min(_PAUSE_S_MAX, 2.0 ** (restart_count - 1)) if restart_count else 0.0


def _end_with_parent(parent_id: int) -> None:
    """Ends this process when its parent ends, even by SIGKILL."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  One broker alone starts faster without it.

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent_id:
        os.kill(os.getpid(), signal.SIGTERM)
