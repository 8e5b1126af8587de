"""`roquet namesrv`: runs a name server until SIGINT or SIGTERM."""

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from msgspec.structs import replace

from roquet.cli.argument_types import port_number
from roquet.cli.serving.log_lines import LogForm, log_to_stderr
from roquet.cli.serving.options import (
    access_given,
    define_access,
    define_monitoring,
    define_tls,
    home_from_environment,
    http_given,
    reloads_on_hangup,
    tls_from_file,
    tls_given,
    warn_of_settings,
)
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.namesrv.config import NameServerConfig, doubtful_booleans, is_known, read_config
from roquet.namesrv.server import serve_names
from roquet.net.loop import raise_file_limit, relax_garbage_collection, run_server, stop_signals
from roquet.protocol.properties_text import read_properties_text


def define(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="FILE",
        help="A properties file of an Apache name server.",
    )
    parser.add_argument(
        "--host", help="Address to listen on. Default: that of the file, or 127.0.0.1."
    )
    parser.add_argument(
        "--port", type=port_number, help="Port to listen on; 0 takes any free port."
    )
    define_access(parser)
    define_tls(parser)
    define_monitoring(parser)
    # Accepted because Apache accepts it; has no effect.
    parser.add_argument("-n", help=SUPPRESS)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    try:
        run_name_server(
            given.config,
            given.host,
            given.port,
            access_given(given) | tls_given(given) | http_given(given),
            given.log,
        )
    except (RoquetError, OSError) as error:
        print(f"roquet namesrv: {error}", file=sys.stderr)
        return 1
    return 0


def run_name_server(
    config_file: Path | None,
    host: str | None,
    port: int | None,
    given: dict[str, str],
    log_form: LogForm = LogForm.TEXT,
) -> None:
    """Returns after SIGINT or SIGTERM; `given` are settings under the names of files.

    Raises OSError, BadBody, ConfigError, ConfigError, TlsNotUsable, UnsupportedOption, BadRules or
    BadStateFile.
    """
    log_to_stderr(log_form)
    raise_file_limit()
    config = _config(config_file, given)
    run_server(
        _serve(
            replace(
                config,
                host=config.host if host is None else host,
                port=config.port if port is None else port,
            )
        )
    )


def _config(path: Path | None, given: dict[str, str]) -> NameServerConfig:
    settings = {} if path is None else read_properties_text(path.read_bytes())
    settings |= home_from_environment(settings) | tls_from_file(settings) | given
    config, ignored = read_config(settings)
    if path is not None:
        warn_of_settings(path, ignored, is_known, doubtful_booleans(settings))
    return config


async def _serve(config: NameServerConfig) -> None:
    with stop_signals() as stop, reloads_on_hangup(has_files=config.tls.has_files) as reloading:
        async with serve_names(config, SystemClock(), SystemDisk()) as server:
            reloading.append(server.tls)
            relax_garbage_collection()
            await stop.wait()
