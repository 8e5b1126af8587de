"""Access control on the command line, and where Apache's environment says that its files are."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_HOME_VARIABLE: Final = "ROCKETMQ_HOME"
_HOME_KEY: Final = "rocketmqHome"


def define_access(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--acl-file",
        type=Path,
        metavar="FILE",
        help="Lets in only the accounts of this file, an Apache plain_acl.yml; `roquet account add`"
        " makes one.",
    )


def access_given(given: Namespace) -> dict[str, str]:
    """What was said on the command line, under the names of settings."""
    if given.acl_file is None:
        return {}
    return {"aclEnable": "true", "aclFile": str(given.acl_file)}


def home_from_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Where Apache's servers are installed, unless the settings say it."""
    home = os.environ.get(_HOME_VARIABLE)
    return {_HOME_KEY: home} if home and _HOME_KEY not in settings else {}
