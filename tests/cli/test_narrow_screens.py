"""On 80 columns no name is cut, in whatever the commands print."""

from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.cli.demo import _gain_table, _sentence, schemes
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic

LONG = "a-rather-long-seller-name-of-the-marketplace-{}@example.com"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three sellers with long names; the first copies half of the second's units."""
    folder = tmp_path_factory.mktemp("narrow")
    market = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=20, validation=60), 0)
    units, oracle = market.honest.submission, market.utility_oracle()
    seller = [LONG.format(name[-1]) for name in units.identity.tolist()]
    stolen = [i for i, name in enumerate(seller) if "-1@" in name][:10]
    order = [*range(len(seller)), *stolen]
    rows = {
        "id": [f"unit-{i}" for i in range(len(order))],
        "identity": [*seller, *[LONG.format(0)] * len(stolen)],
        "label": units.label[order].tolist(),
        "features": units.features[order].tolist(),
        "time": list(np.arange(len(order), dtype=float)),
    }
    pq.write_table(pa.table(rows), folder / "units.parquet")
    validation = {"label": oracle.label.tolist(), "features": oracle.features.tolist()}
    pq.write_table(pa.table(validation), folder / "validation.parquet")
    return folder


def printed(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    return done.stdout


def test_audit_pay_and_explain_wrap_names(files):
    units, validation = files / "units.parquet", files / "validation.parquet"
    texts = [
        printed(
            "audit", units, "--validation", validation, "--only", "copycat", "--out", files / "audit"
        ),
        printed("pay", units, "--validation", validation, "--amount", "100", "--out", files / "pay"),
        printed("explain", files / "pay", "--payee", LONG.format(0)),
    ]
    for text in texts:
        assert "…" not in text.replace("… and", "")  # more rows than are shown
        assert "a-rather-long" in text


def test_lists_are_not_cut():
    text = printed("list")
    assert "…" not in text
    assert "near_duplicate_2x_sybils" in text


def test_the_demo_names_markets_that_mean_nothing():
    usual, ours, checked = (scheme.title for scheme in schemes())
    gains = {
        ("theft", usual): [(2.0, 1.0, True), (9.0, 0.001, False)],
        ("theft", ours): [(2.0, 1e-12, False), (2.0, -1e-12, False)],
        ("theft", checked): [(0.5, 1.0, True), (0.5, 1.0, True)],
    }
    console = Console(width=80, record=True, file=StringIO())
    console.print(_gain_table(gains, 2))
    text = " ".join(console.export_text().split())
    assert "2.000 [10.989]" in text
    assert "no clear market" in text
    assert f"{usual}: 1; {ours}: 0, 1" in text
    assert "by 2.00" in _sentence(gains)
    assert "no market here tells" in _sentence(gains)
