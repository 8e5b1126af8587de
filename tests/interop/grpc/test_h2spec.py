"""HTTP/2 of the endpoint, judged by h2spec: 145 cases of what a server must do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.our_cluster import OurCluster

MODULE = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
BUILD = Path(__file__).parents[3] / "build" / "h2spec"


@pytest.fixture(scope="module")
def h2spec() -> Path:
    program = BUILD / "h2spec"
    if not program.exists():
        if shutil.which("go") is None:
            pytest.skip("Go is not installed, which compiles h2spec")
        environment = os.environ | {"GOBIN": str(BUILD)}
        subprocess.run(["go", "install", MODULE], check=True, env=environment, timeout=500)
    return program


@pytest.mark.full("compiles a Go program, once")
def test_h2spec_finds_no_failure(h2spec: Path, tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--grpc", "127.0.0.1:0") as cluster:
        port = cluster.ready_line.rpartition(":")[2]
        done = subprocess.run(
            [h2spec, "-h", "127.0.0.1", "-p", port, "-o", "5"],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    assert " 0 failed" in done.stdout, done.stdout[-3000:]
    assert done.returncode == 0
