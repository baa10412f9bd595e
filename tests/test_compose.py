"""The containers of docs/cluster.md: one image, workers of one thread, and nothing that everybody can reach."""

import pytest

from repository import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra dask")


def test_the_services_are_a_scheduler_workers_and_the_command():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert set(services) == {"scheduler", "worker", "datamarket"}
    assert len({service["image"] for service in services.values()}) == 1  # the same bits everywhere
    assert services["scheduler"]["build"] == "."
    assert services["scheduler"]["command"].split()[:2] == ["dask", "scheduler"]
    words = services["worker"]["command"].split()
    assert words[:3] == ["dask", "worker", "tcp://scheduler:8786"]
    assert words[words.index("--nthreads") + 1] == "1"
    assert services["worker"]["deploy"]["replicas"] >= 2
    assert services["worker"]["environment"] == services["datamarket"]["environment"]
    assert not any("ports" in service for service in services.values())
    shared = [set(services[name]["volumes"]) for name in ("worker", "datamarket")]
    assert shared[0] < shared[1]  # only the command writes runs


def test_the_image_has_what_its_commands_need():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM")] == ["FROM python:3.12-slim"]
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    kept = (ROOT / ".dockerignore").read_text().split()
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in kept
    assert any("[dask" in line for line in lines)
