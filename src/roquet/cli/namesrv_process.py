"""A process that is a name server: settings, log, signals."""

from pathlib import Path

from msgspec.structs import replace

from roquet.cli.log_lines import log_to_stderr
from roquet.cli.settings_warnings import warn_of_settings
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig, doubtful_truths, is_known, read_config
from roquet.namesrv.server import serve_names
from roquet.net.loop import raise_file_limit, relax_garbage_collection, run, stop_signals
from roquet.protocol.bodies.properties_text import read_properties_text


def run_name_server(config_file: Path | None, host: str | None, port: int | None) -> None:
    """Returns after SIGINT or SIGTERM.

    Raises OSError, BadBody, BadSetting, PromiseNotKept or BadStateFile.
    """
    log_to_stderr()
    raise_file_limit()
    config = _read_file(config_file) if config_file else NameServerConfig()
    run(
        _serve(
            replace(
                config,
                host=config.host if host is None else host,
                port=config.port if port is None else port,
            )
        )
    )


def _read_file(path: Path) -> NameServerConfig:
    settings = read_properties_text(path.read_bytes())
    config, ignored = read_config(settings)
    warn_of_settings(path, ignored, is_known, doubtful_truths(settings))
    return config


async def _serve(config: NameServerConfig) -> None:
    with stop_signals() as stop:
        async with serve_names(config, SystemClock(), SystemDisk()):
            relax_garbage_collection()
            await stop.wait()
