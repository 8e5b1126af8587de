"""HTTP/2 of the endpoint, judged by h2spec: 145 cases of what a server must do."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.our_cluster import OurCluster

PROGRAM = "github.com/summerwind/h2spec/cmd/h2spec"
# It names no versions of what it uses; the newest of today are too new for the Go of Debian 12.
MODULES = (
    f"{PROGRAM}@v2.2.1+incompatible",
    "golang.org/x/net@v0.17.0",
    "github.com/spf13/cobra@v1.7.0",
    "github.com/fatih/color@v1.15.0",
)
BUILD = Path(__file__).parents[3] / "build" / "h2spec"


@pytest.fixture(scope="module")
def h2spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = BUILD / "h2spec"
    if not program.exists():
        if shutil.which("go") is None:
            pytest.skip("Go is not installed, which compiles h2spec")
        directory = tmp_path_factory.mktemp("h2spec")
        for words in (
            ("mod", "init", "judge"),
            ("get", *MODULES),
            ("build", "-o", str(program), PROGRAM),
        ):
            subprocess.run(["go", *words], cwd=directory, check=True, timeout=500)
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
