"""A process that is a broker: settings, log, signals."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from roquet.broker.disk_plan import check_room, plan_of, use_text
from roquet.broker.settings.apache_keys import TREATMENTS, doubtful_booleans, read_config
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.supervisor import BrokerSupervisor, supervised_broker
from roquet.cli.serving.access_options import home_from_environment
from roquet.cli.serving.broker_group import members_of, run_group
from roquet.cli.serving.log_lines import LogForm, log_to_stderr
from roquet.cli.serving.settings_warnings import warn_of_settings
from roquet.cli.serving.tls_options import reloads_on_hangup, tls_from_file
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.net.loop import raise_file_limit, relax_garbage_collection, run, stop_signals
from roquet.protocol.properties_text import read_properties_text
from roquet.settings.options import ConfigError

log = logging.getLogger(__name__)

# As in Apache, where no other place names them.
_NAME_SERVERS: Final = "NAMESRV_ADDR"
_DEFAULT_DIRECTORY: Final = "store"  # in the home directory, as Apache's


class BrokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; it is stronger than the file."""

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
    """A broker cannot trust its disk any more; the log says why."""


def run_broker(options: BrokerOptions) -> None:
    """Returns after SIGINT or SIGTERM.

    Raises BrokerFailed, GroupMemberFailed, NoRoomForStore, OSError, ConfigError, ConfigError,
    UnsupportedOption, BadBody and what `supervised_broker` raises.
    """
    log_to_stderr(options.log_form)
    raise_file_limit()
    config = _config(options)
    if options.process_count == 1:
        tell_disk_use([config])
        _run_one(config)
    else:
        members = members_of(config, options.process_count)
        tell_disk_use(members)
        run_group(members, _run_one)


def tell_disk_use(brokers: Sequence[BrokerConfig]) -> None:
    """What brokers of one disk will take. Raises NoRoomForStore and OSError."""
    plan = plan_of([each.store for each in brokers], SystemDisk())
    log.info(use_text(plan))
    check_room(plan)


def _run_one(config: BrokerConfig) -> None:
    run(_serve(config))


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
        reason = "only with replication.etcd, whose record of this broker name is lost"
        raise ConfigError("--found", "true", reason)
    return replace(config, is_to_found=options.is_to_found, **given)


async def _serve(config: BrokerConfig) -> None:
    with stop_signals() as stop, reloads_on_hangup(has_files=config.has_tls_files) as reloading:
        async with supervised_broker(config, SystemClock(), SystemDisk()) as life:
            reloading.append(life)
            relax_garbage_collection()
            await until_stopped(stop, [life])
