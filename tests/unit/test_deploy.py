"""The manifests in ``deploy/kubernetes`` fit Kubernetes' schemas, and their commands and probes fit lakelog."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import kubernetes_validate
import pytest
import yaml

from dashboards import TOKEN

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
FILES: Final = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def container(name: str) -> dict[str, Any]:
    """The container of a file's pods."""
    pods = [
        d["spec"]["template"]["spec"]
        for d in documents(DEPLOY / "kubernetes" / name)
        if "template" in d.get("spec", {})
    ]
    return pods[0]["containers"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_manifest_fits_the_schemas_of_kubernetes(path: Path, version: str) -> None:
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


def test_all_pods_have_the_image_and_the_secret_that_there_are() -> None:
    found = [container(name) for name in ("writer.yaml", "optimizer.yaml", "dashboard.yaml")]
    (image,) = {one["image"] for one in found}
    assert f"-t {image} " in (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    named = {d["kind"]: d["metadata"]["name"] for d in documents(DEPLOY / "kubernetes" / "lakelog.yaml")}
    assert {one["envFrom"][0]["secretRef"]["name"] for one in found} == {named["Secret"]}


def test_the_optimizer_s_command_is_one_of_lakelog(tmp_path: Path) -> None:
    config = tmp_path / "lakelog.toml"
    config.write_text(documents(DEPLOY / "kubernetes" / "lakelog.yaml")[0]["data"]["lakelog.toml"], encoding="utf-8")
    arguments = [str(config) if "/lakelog.toml" in word else word for word in container("optimizer.yaml")["args"]]
    done = subprocess.run(
        [sys.executable, "-m", "lakelog", *arguments, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--interval" in done.stdout


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The dashboard with the manifest's arguments, here: its address."""
    certificate = directory / "tls.crt", directory / "tls.key"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-out", str(certificate[0])]
    subprocess.run([*made, "-keyout", str(certificate[1]), *names], check=True, capture_output=True)
    (directory / "lakelog.toml").write_text(f'warehouse = "{directory}/warehouse"\n', encoding="utf-8")
    (directory / "warehouse").mkdir()
    here = {"/etc/lakelog/": f"{directory}/", "/etc/lakelog-tls/": f"{directory}/", "/state": f"{directory}/state"}
    arguments = [*container("dashboard.yaml")["args"]]
    for place, path in here.items():
        arguments = [word.replace(place, path) for word in arguments]
    arguments[arguments.index("0.0.0.0")] = "127.0.0.1"
    arguments[arguments.index("--port") + 1] = "0"
    environment = {**os.environ, "LAKELOG_DASHBOARD_TOKEN": TOKEN}
    process = subprocess.Popen(
        [sys.executable, "-m", "lakelog", *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"https://[^/ ]+", process.stdout.readline())
        assert found is not None
        yield found[0].replace("localhost", "127.0.0.1")
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("name", ["readinessProbe", "livenessProbe"])
def test_the_dashboard_answers_the_probes_of_its_pod_and_no_other_name(tmp_path: Path, name: str) -> None:
    probe = container("dashboard.yaml")[name]["httpGet"]
    headers = {header["name"]: header["value"] for header in probe["httpHeaders"]}
    with served(tmp_path) as address:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
        with httpx.Client(base_url=address, verify=trusted, trust_env=False, timeout=120) as client:
            assert client.get(probe["path"], headers=headers).status_code == 200
            assert client.get(probe["path"], headers={"Host": "10.77.0.10:8443"}).status_code >= 400
            assert client.get("/", headers=headers).status_code in (303, 401)
