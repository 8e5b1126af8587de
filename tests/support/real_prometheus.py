"""A real Prometheus on loopback, and its promtool."""

import json
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml

from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.ports import free_port

_STOP_TIMEOUT_S = 30.0

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="there is no Prometheus: scripts/need_tools.sh installs it",
)


def promtool(*words: str | Path, stdin: bytes = b"") -> str:
    """Its output for something that it accepts; else this fails with that output."""
    finished = subprocess.run(
        ["promtool", *map(str, words)], input=stdin, capture_output=True, check=False
    )
    output = (finished.stdout + finished.stderr).decode()
    assert finished.returncode == 0, output
    return output


class RealPrometheus:
    """Looks at `target` every second, by `rules`, which is a file."""

    def __init__(self, directory: Path, target: str, rules: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._directory = directory
        self._config = directory / "prometheus.yml"
        self._config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(rules)],
                    "scrape_configs": [
                        {"job_name": "roquet", "static_configs": [{"targets": [target]}]}
                    ],
                }
            )
        )

    def __enter__(self) -> Self:
        with (self._directory / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_ready)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(_STOP_TIMEOUT_S)

    def _is_ready(self) -> bool:
        try:
            return page_of(self.address, "/-/ready").status == 200
        except OSError:
            return False

    def asked(self, path: str) -> Any:
        return json.loads(page_of(self.address, f"/api/v1/{path}").body)["data"]

    def values(self, metric: str) -> list[float]:
        found = self.asked(f"query?query={metric}")["result"]
        return [float(each["value"][1]) for each in found]

    def firing(self) -> dict[str, dict[str, str]]:
        """The annotations of alerts, by their names."""
        return {
            alert["labels"]["alertname"]: alert["annotations"]
            for alert in self.asked("alerts")["alerts"]
            if alert["state"] == "firing"
        }
