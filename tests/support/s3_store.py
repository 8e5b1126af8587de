"""S3 on this machine, in a process of its own: deltalake waits without letting threads run."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self, final

import msgspec
import pytest
from pyarrow import fs

from roquet.pipeline.lake.places import S3Location

BUCKET = "messages"
_ROOT = Path(__file__).parents[2]


@final
class S3Store:
    """Moto with a bucket; `options` are those of `tests/support/s3_server.py`."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.s3_server", *options],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        assert port, "the server did not start"
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }
        self._files = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            access_key="key",
            secret_key="secret",
            region="us-east-1",
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
