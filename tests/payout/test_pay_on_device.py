"""A payout_run by a graphics card, here one that numpy plays: it is asked for evidence and scores, and pays the same.

A card adds coverage up in an order of its own: payments are the same to the cent, scores to 1e-9.
"""

import numpy as np
import pytest
from payout_files import units, validation, write
from typer.testing import CliRunner

from comparing import require_same_payments
from datamarket_gym.cli import terminal
from datamarket_gym.cli.app import app
from datamarket_gym.evidence import similarity_bounds as prefix
from datamarket_gym.evidence.similarity_search import Device
from datamarket_gym.execution.parallel import compute
from datamarket_gym.utilities import accelerators as device_arrays
from datamarket_gym.utilities.accelerators import HostArrays
from datamarket_gym.utilities.coverage import LabelGroup
from datamarket_gym.utilities.knn_neighbors import Neighbourhood

UNITS = 4200  # as many as are worth a device's while


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    return write(tmp_path_factory.mktemp("in") / "in", units(UNITS, copies=40), validation(60))


@pytest.fixture
def asked(monkeypatch):
    """What was asked of the device, in order."""
    asked = []
    monkeypatch.setattr(prefix, "LEVELS", (2, 4))  # these units have 6 numbers
    monkeypatch.setattr(terminal, "device_named", lambda name: name)
    monkeypatch.setattr(Device, "cuda", staticmethod(lambda: asked.append("pairs") or Device(np, "cpu")))
    monkeypatch.setattr(device_arrays, "CudaArrays", lambda device: HostArrays())
    for kind, method in ((LabelGroup, "tiles_on_device"), (Neighbourhood, "on_device")):
        plain = getattr(kind, method)
        monkeypatch.setattr(
            kind, method, lambda *given, plain=plain: asked.append("scores") or plain(*given)
        )
    return asked


def paid(market, out, utility, device):
    words = [
        "pay",
        market.submissions,
        "--validation",
        market.validation,
        "--amount",
        "100",
        "--checks",
        "0",
    ]
    words += ["--no-audit", "--utility", utility, "--device", device, "--out", out]
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output + str(done.exception)
    assert compute().device == "cpu"  # it was named for that command alone
    return out


@pytest.mark.parametrize("utility", ["knn", "coverage"])
def test_evidence_and_scores_are_the_devices_and_the_cents_are_the_same(
    market, utility, asked, tmp_path
):
    here = paid(market, tmp_path / "here" / "run", utility, "cpu")
    assert not asked
    there = paid(market, tmp_path / "there" / "run", utility, "cuda")
    assert set(asked) == {"pairs", "scores"}
    require_same_payments(there, here)
