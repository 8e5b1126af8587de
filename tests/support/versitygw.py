"""Versity's gateway: an S3 that checks keys and signatures, and keeps objects in a directory.

It is compiled once, by Go 1.25 or newer; where it cannot be, what needs it is skipped. A second
opinion beside moto, whose conditional puts are those of one Python process.
"""

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.eventually import wait_until
from tests.support.jars import cache_directory, made_once
from tests.support.ports import free_port
from tests.support.s3_store import KEYS, REGION, S3Server, S3Store

_MODULE: Final = "github.com/versity/versitygw/cmd/versitygw"
_VERSION: Final = "v1.8.0"
_BUILD_TIMEOUT_S: Final = 1_800


class NotCompiled(Exception):
    """Why there is no gateway on this machine."""


def versitygw_store(directory: Path) -> S3Store:
    """With its objects below the directory; skips where it cannot be compiled."""
    try:
        return S3Store(server=versitygw(directory))
    except NotCompiled as error:
        pytest.skip(str(error))


def versitygw(directory: Path) -> S3Server:
    """Raises NotCompiled."""
    program = _program()
    objects, attributes = directory / "objects", directory / "attributes"
    for each in (objects, attributes):
        each.mkdir(parents=True)
    key, secret = KEYS
    port = free_port()
    process = subprocess.Popen(
        [
            *(program, "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"),
            # File systems of tests need not have extended attributes.
            *("posix", "--sidecar", str(attributes), str(objects)),
        ],
        env={"ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    wait_until(lambda: process.poll() is not None or _accepts(port))
    return S3Server(process, port)


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _program() -> Path:
    if shutil.which("go") is None:
        raise NotCompiled("Go is not installed, which compiles versitygw")
    try:
        built = made_once(cache_directory() / f"versitygw-{_VERSION}", _compile)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        lines = str(error.stderr or error).strip().splitlines()
        raise NotCompiled(f"versitygw cannot be compiled: {lines[-1]}") from None
    return built / "versitygw"


def _compile(directory: Path) -> None:
    subprocess.run(
        ["go", "install", f"{_MODULE}@{_VERSION}"],
        # Not a newer Go, which it would download.
        env=os.environ | {"GOBIN": str(directory), "GOTOOLCHAIN": "local"},
        check=True,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
    )
