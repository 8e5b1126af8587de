"""What is in `deploy` is well-formed to the tools of those it is for, and known to Roquet.

None of it is run here: there is neither a running systemd, nor a Docker, nor a Kubernetes.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from roquet import __version__
from roquet.broker.settings.apache_keys import read_config as read_broker_config
from roquet.namesrv.config import read_config as read_name_server_config
from roquet.protocol.properties_text import read_properties_text
from tests.support.page_blocks import ROOT
from tests.support.shell_lines import fault_of

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
PROGRAM = "/opt/roquet/bin/roquet"
# The oldest that still gets repairs, and the newest that the schemas know.
KUBERNETES_VERSIONS = ("1.34", kubernetes_validate.latest_version())
EXPOSURE_MAX = 2.5  # of 10, as systemd-analyze counts

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is missing (scripts/need_tools.sh installs it on Debian)",
)


def name_of(path: Path) -> str:
    return path.name


def documents(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(path.read_text())]


def read_settings(text: bytes) -> list[str]:
    """Those that are ignored; the first line says whose they are."""
    settings = read_properties_text(text)
    if text.startswith(b"# broker.conf\n"):
        return read_broker_config(settings, Path()).ignored
    assert text.startswith(b"# namesrv.conf\n")
    return read_name_server_config(settings).ignored


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_systemd_has_nothing_to_say_about_a_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    # The program has to be there, or its absence is what is reported.
    copy.write_text(unit.read_text().replace(PROGRAM, str(Path(sys.executable).parent / "roquet")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_systemd_sees_a_word_that_it_does_not_know(tmp_path: Path) -> None:
    copy = tmp_path / "wrong.service"
    copy.write_text("[Service]\nExecStart=/bin/true\nRestrat=always\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Restrat" in done.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_a_unit_is_shut_off_from_what_it_does_not_need(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found
    assert float(found[1]) <= EXPOSURE_MAX


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_a_unit_starts_what_there_is_with_settings_that_are_obeyed(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    assert fault_of(line.replace(PROGRAM, "roquet")) is None
    (config,) = re.findall(r"/etc/roquet/(\S+)", line)
    assert read_settings((DEPLOY / "systemd" / config).read_bytes()) == []


def test_hadolint_has_nothing_to_say_about_the_container() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "hadolint"), str(CONTAINERFILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_copies_what_there_is_and_starts_roquet() -> None:
    text = CONTAINERFILE.read_text()
    copied = [
        word
        for line in re.findall(r"^COPY ((?!--).*)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert copied
    assert all((ROOT / word).exists() for word in copied)
    kept = CONTAINERFILE.with_name("Containerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in kept if line.startswith("!")} == {*copied}
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    assert fault_of(shlex.join(json.loads(entry) + json.loads(command))) is None


@pytest.mark.parametrize("path", [*MANIFESTS, ROOT / "mkdocs.yml"], ids=name_of)
def test_yamllint_has_nothing_to_say(path: Path) -> None:
    config = YamlLintConfig(file=str(ROOT / ".yamllint.yaml"))
    assert [str(problem) for problem in linter.run(path.read_text(), config)] == []


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize(
    "manifest",
    [document for path in MANIFESTS for document in documents(path)],
    ids=lambda document: f"{document['kind']}-{document.get('metadata', {}).get('name', '')}",
)
def test_a_manifest_fits_its_schema(manifest: dict[str, Any], version: str) -> None:
    if manifest["kind"] == "Kustomization":
        # Read by kubectl itself; the server has no schema for it.
        resources = {DEPLOY / "kubernetes" / name for name in manifest["resources"]}
        assert resources == {path for path in MANIFESTS if path.name != "kustomization.yaml"}
    else:
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_manifest_that_does_not_fit_is_seen() -> None:
    (service, *_) = documents(DEPLOY / "kubernetes" / "namesrv.yaml")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service | {"spec": {"prots": []}}, "1.34", strict=True)


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each with its StatefulSet."""
    for path in MANIFESTS:
        for document in documents(path):
            if document["kind"] == "StatefulSet":
                for container in document["spec"]["template"]["spec"]["containers"]:
                    yield document, container


@pytest.mark.parametrize(("owner", "container"), [*containers()], ids=lambda each: each.get("name"))
def test_a_container_is_configured_with_known_settings(
    owner: dict[str, Any], container: dict[str, Any]
) -> None:
    assert container["image"] == f"roquet:{__version__}"
    # Kubernetes puts in what the environment says.
    arguments = [re.sub(r"\$\((\w+)\)", r"\1", each) for each in container["args"]]
    assert fault_of(shlex.join(["roquet", *arguments])) is None
    ports = {port["name"] for port in container["ports"]}
    probes = {probe: container[probe]["httpGet"] for probe in ("readinessProbe", "livenessProbe")}
    assert [each["path"] for each in probes.values()] == ["/ready", "/health"]
    assert {each["port"] for each in probes.values()} == {"http"} <= ports
    mounted = {each["name"] for each in container["volumeMounts"]}
    pod, claims = owner["spec"]["template"]["spec"], owner["spec"]["volumeClaimTemplates"]
    there = {each["name"] for each in pod["volumes"]} | {
        each["metadata"]["name"] for each in claims
    }
    assert mounted == there


def test_settings_of_the_manifests_are_obeyed() -> None:
    maps = [
        text
        for path in MANIFESTS
        for document in documents(path)
        if document["kind"] == "ConfigMap"
        for text in document["data"].values()
    ]
    assert maps
    assert [read_settings(text.encode()) for text in maps] == [[] for _ in maps]
