import os
from pathlib import Path

import numpy as np
import pytest

import dask_cluster
import postgres_server
from datamarket_gym.data import Submission
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic

# The real data sets, where they lie beside the project, as the Makefile has it.
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("DATAMARKET_DATA", str(BESIDE))


@pytest.fixture(scope="session")
def market():
    """Four providers with twelve units each."""
    return ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=12, validation=60), seed=3)


@pytest.fixture
def submission():
    """Six units of three identities: b and c hold an exact copy of a unit of a."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [1.0, 0.0], [-1.0, 3.0]])
    return Submission(
        id=list("uvwxyz"),
        identity=["a", "a", "b", "b", "c", "c"],
        features=features,
        label=[0, 1, 0, 1, 0, 1],
        time=[0.0, 0.0, 1.0, 1.0, 2.0, 2.0],
    )


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL server of this process; `postgres.database()` gives the URL of a fresh database."""
    if reason := postgres_server.why_not():
        pytest.skip(reason)
    server = postgres_server.PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def dask_processes():
    if reason := dask_cluster.why_not():
        pytest.skip(reason)
    cluster = dask_cluster.DaskCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(dask_processes):
    """A dask scheduler and two workers, each a process of its own; a test may kill the workers."""
    dask_processes.whole()
    return dask_processes


@pytest.fixture
def postgres_ledger(postgres, monkeypatch):
    """The URL of a database on a real PostgreSQL server that nobody has used.

    The password is in the environment, too, as for an operator: files of a run name their ledger without it.
    """
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    return postgres.database()


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """Where a new ledger may lie: a file, and a database of a real server."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    return request.getfixturevalue("postgres_ledger")
