"""S3 on this machine, in a process of its own: deltalake waits without letting threads run."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, final

import msgspec
import pytest
from pyarrow import fs

from roquet.pipeline.lake.places import S3Location

BUCKET = "messages"
REGION = "us-east-1"
KEYS = ("key", "secret")
_ROOT = Path(__file__).parents[2]


class S3Server(NamedTuple):
    """A process that serves S3 at a port of this machine; the keys are `KEYS`."""

    process: "subprocess.Popen[str]"
    port: int


def moto(*options: str) -> S3Server:
    """`options` are those of `tests/support/s3_server.py`. It does not check keys."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.s3_server", *options],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    assert port, "the server did not start"
    return S3Server(process, int(port))


@final
class S3Store:
    """A server, moto's unless another is given, with a bucket."""

    def __init__(self, *options: str, server: S3Server | None = None) -> None:
        self._process, port = server or moto(*options)
        key, secret = KEYS
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": REGION,
        }
        self._files = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            access_key=key,
            secret_key=secret,
            region=REGION,
            allow_bucket_creation=True,
        )
        self._files.create_dir(BUCKET)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In this process, and in those that it starts."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def location(self, name: str) -> S3Location:
        return S3Location(BUCKET, name)

    def location_with_file(self, name: str, directory: Path) -> S3Location:
        """With its keys in a file: Spark's processes have the environment that it started with."""
        file = directory / "storage-options.json"
        file.write_bytes(msgspec.json.encode(self.environment))
        return S3Location(BUCKET, name, file)

    def keys(self, prefix: str) -> list[str]:
        """Of objects below a prefix that ends with a slash."""
        below = fs.FileSelector(f"{BUCKET}/{prefix}", recursive=True, allow_not_found=True)
        return [each.path for each in self._files.get_file_info(below) if each.is_file]
