"""`roquet spark` on a cluster: where Spark runs, and the archive that its executors need."""

import sys
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from pathlib import Path
from typing import Final

import msgspec

from roquet.errors import RoquetError

_PACKAGE: Final = """\
Write an archive of roquet and what it needs, for executors that lack it.

What is compiled cannot be imported from a zip, so '--py-files' cannot carry
it. Spark unpacks archives; executors need the same version of Python as this
one, on machines of the same kind.
"""
_MIB: Final = 1 << 20


def define_cluster(parser: ArgumentParser) -> None:
    """What every job that runs on Spark can be told."""
    parser.add_argument(
        "--master", default="local[*]", help="Where Spark runs; this machine if left out."
    )
    parser.add_argument(
        "--archive",
        type=Path,
        metavar="FILE",
        help="What 'roquet spark package' wrote, for executors whose Python has no roquet.",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="A setting of Spark; may be given several times.",
    )


def spark_settings(given: Namespace) -> dict[str, str]:
    return dict(given.conf)


def define_package(commands: "_SubParsersAction[ArgumentParser]") -> None:
    parser = commands.add_parser(
        "package",
        help=_PACKAGE.partition("\n")[0],
        description=_PACKAGE,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "archive",
        type=Path,
        nargs="?",
        default=Path("roquet-site.zip"),
        metavar="FILE",
        help="What to write; roquet-site.zip if left out.",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="LIBRARY",
        help="Leave out what the Python of executors has, such as pyarrow.",
    )
    parser.add_argument("--json", action="store_true", help="Print one JSON object at the end.")
    parser.set_defaults(run=_package)


def _package(given: Namespace) -> int:
    from roquet.pipeline.jobs.packaging import package  # noqa: PLC0415

    print(
        "roquet spark package: packing, which takes some seconds ...", file=sys.stderr, flush=True
    )
    try:
        made = package(given.archive, given.without)
    except RoquetError as error:
        print(f"roquet spark package: {error}", file=sys.stderr)
        return 1
    if given.json:
        print(msgspec.json.encode(made._asdict(), enc_hook=str).decode())
        return 0
    libraries = ", ".join(f"{name} {version}" for name, version in made.libraries.items())
    print(
        f"{made.path}: {made.bytes / _MIB:.0f} MiB, unpacked {made.unpacked_bytes / _MIB:.0f} MiB\n"
        f"for Python {made.python} on {made.platform}, with {libraries}\n"
        f"use it by: roquet spark ... --archive {made.path}\n"
        f"       or: spark-submit --archives {made.path}#site"
        " --conf spark.executorEnv.PYTHONPATH=site ..."
    )
    return 0


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
