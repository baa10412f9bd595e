"""A payout_run on a cluster, with less memory, by either device: the same cents."""

import json

import pytest
from payout_files import units, validation, write
from typer.testing import CliRunner

from comparing import assert_near, require_same_payments
from dask_cluster import Counted
from datamarket_gym.cli.app import app
from datamarket_gym.execution.dask_cluster import Connection
from datamarket_gym.execution.parallel import Compute, computing, device_named
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.utilities import accelerators as device_arrays


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


def test_a_payout_run_whose_worker_is_killed_pays_the_same(cluster, tmp_path, monkeypatch):
    places = write(tmp_path / "in", units(1200, copies=40), validation(600))
    spec = checked_spec(
        {"amount": "1000", "currency": "EUR", "learner": "knn", "audit": False, "checks": 0}
    )
    shared_out = []
    each = Connection.each

    def counted(self, function, shared, tasks, **options):
        shared_out.append(len(tasks))
        for at, answer in enumerate(each(self, function, shared, tasks, **options)):
            if at == 1 and len(shared_out) == 1:
                cluster.kill("two")
            yield answer

    monkeypatch.setattr(Connection, "each", counted)
    pay(places, spec, tmp_path / "here" / "run")
    assert not shared_out
    told = Counted()
    with computing(Compute(cluster=cluster.address, least_pairs=1)):
        pay(places, spec, tmp_path / "there" / "run", told)
    require_same_payments(tmp_path / "here" / "run", tmp_path / "there" / "run")
    assert len(shared_out) >= 2  # pairs of units, and validation rows
    assert told.counts


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    folder = tmp_path_factory.mktemp("market")
    return write(folder / "in"), folder


def paid(market, name, *flags):
    places, folder = market
    run = folder / name / "run"
    done = typed(
        "pay", places.submissions, "--validation", places.validation, "--amount", "100", "--checks", "0", "--no-audit",
        "--out", run, *flags,
    )  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    return run


def test_flags_of_speed_change_no_cent(cluster, market):
    plain = paid(market, "plain")
    require_same_payments(plain, paid(market, "little", "--memory", "0.5", "--device", "auto"))
    require_same_payments(plain, paid(market, "cluster", "--cluster", cluster.address))


def test_a_device_that_adds_in_another_order_changes_no_cent(tmp_path, monkeypatch):
    monkeypatch.setattr(device_arrays, "CudaArrays", lambda device: device_arrays.HostArrays())
    places = write(tmp_path / "in", units(300), validation(100))
    spec = checked_spec({"amount": "100", "audit": False, "checks": 0})
    pay(places, spec, tmp_path / "cpu" / "run")
    with computing(Compute(device="cuda")):
        pay(places, spec, tmp_path / "cuda" / "run")
    require_same_payments(tmp_path / "cpu" / "run", tmp_path / "cuda" / "run")


def test_of_auto_it_is_said_which_device_that_is(market):
    places, _ = market
    done = typed("audit", places.submissions, "--validation", "no file", "--device", "auto")
    assert f"units are compared on: {device_named('auto')}" in done.output


@pytest.mark.parametrize("setting", ['cluster = "tcp://a:1"', "memory = 2.0", 'device = "cpu"'])
def test_they_are_no_settings_of_a_run(market, tmp_path, setting):
    places, _ = market
    (tmp_path / "pay.toml").write_text(f'amount = "100"\n{setting}\n')
    done = typed(
        "pay", places.submissions, "--validation", places.validation, "--out", tmp_path / "run", "--config",
        tmp_path / "pay.toml",
    )  # fmt: skip
    assert done.exit_code != 0
    assert f"no setting of a run; say --{setting.split()[0]} instead" in str(done.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--memory", "0"), "memory"),
        (("--memory", "inf"), "memory"),
        (("--device", "tpu"), "device"),
        (("--cluster", "10.0.0.1"), "tcp://host:port"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(market, tmp_path, flags, words):
    places, _ = market
    for command in (("pay", "--amount", "100"), ("audit",)):
        done = typed(
            *command,
            places.submissions,
            "--validation",
            places.validation,
            "--out",
            tmp_path / "run",
            *flags,
        )
        assert done.exit_code != 0
        assert words in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_audit_by_command_is_the_same_on_a_cluster(cluster, market, tmp_path):
    places, _ = market
    for name, flags in {"here": (), "there": ("--cluster", cluster.address, "--memory", "1")}.items():
        done = typed(
            "audit", places.submissions, "--validation", places.validation, "--only", "sybil_split_k,copycat",
            "--providers", "2", "--jobs", "1", "--out", tmp_path / name, *flags,
        )  # fmt: skip
        assert done.exit_code == 0, done.output + str(done.exception)
    here, there = (
        json.loads((tmp_path / name / "audit.json").read_text()) for name in ("here", "there")
    )
    assert_near(there, here)
