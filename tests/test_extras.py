"""What the core can do alone, and what says which extra is missing."""

import subprocess
import sys
import tomllib

import pytest

from repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def core_only(code, folder):
    return subprocess.run(
        [sys.executable, ROOT / "tests/core_only.py", code], cwd=folder, capture_output=True, text=True
    )


def command(line, folder):
    words = ["datamarket", *line.split()]
    return core_only(
        f"import sys\nsys.argv = {words}\nfrom datamarket_gym.cli import main\nmain()", folder
    )


def test_the_core_needs_seven_packages_and_torch_comes_by_itself_alone():
    assert [need.partition(">=")[0] for need in PROJECT["dependencies"]] == [
        "numpy", "scipy", "scikit-learn", "pyarrow", "pydantic", "typer", "rich"
    ]  # fmt: skip
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named == extras.keys() - {"torch", "all", "docs", "dev"}
    assert [name for name, needs in extras.items() if any(n.startswith("torch>") for n in needs)] == [
        "torch"
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("--help", "Compare mechanisms under attack"),
        ("list attack", "sybil_split_k"),
        ("demo --seeds 1", "no attack"),
        ("run s2 --seeds 1 --out out", "Results, tables and manifest: "),
    ],
)
def test_commands_that_need_the_core_alone(line, shown, tmp_path):
    done = command(line, tmp_path)
    assert (done.returncode, shown in done.stdout) == (0, True), done.stderr


def test_python_pays_audits_and_reads_tables_with_the_core_alone(tmp_path):
    code = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.csv, pyarrow.parquet
from datamarket_gym import ProviderMarket, Synthetic, Utility, get_mechanism, read_submission
from datamarket_gym.analysis.redteam import audit

table = pa.table({"id": ["a", "b", "c"], "identity": ["x", "x", "y"], "label": [0, 1, 1],
                  "features_0": [0.0, 1.0, 2.0], "features_1": [1.0, 0.5, 0.0]})
pyarrow.csv.write_csv(table, "units.csv")
pyarrow.parquet.write_table(table, "units.parquet")
for name in ("units.csv", "units.parquet"):
    assert list(read_submission(name).identity) == ["x", "x", "y"], name

market = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=20), seed=0)
for utility in ("logistic", "coverage", "knn", "ridge"):
    oracle = market.utility_oracle(Utility.paying(utility))
    for each in ("shapley", "recommended"):
        if utility != "logistic" or each == "shapley":
            paid = get_mechanism(each).pay(market.honest.submission, oracle).as_dict()
            assert sum(paid.values()) > 0, (utility, each)
oracle = market.utility_oracle(Utility.paying())
report = audit(market, get_mechanism("shapley"), oracle, only="copycat", providers=1)
assert report.findings
assert "plotly" not in sys.modules and "sqlalchemy" not in sys.modules
"""
    done = core_only(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("pay units.csv --validation v.npz --amount 3 --currency EUR --out run", "payout"),
        ("audit units.csv --validation v.npz --out audited", "payout"),
        ("theta units.csv", "payout"),
        ("verify run", "payout"),
        ("statements run", "payout"),
        ("ledger show run", "payout"),
        ("ledger show ledger.sqlite", "payout"),
        ("check sample run", "payout"),
        ("dispute list run", "payout"),
        ("export ledger.sqlite --accounts a.csv --out b.xml", "payout"),
        ("intake show ledger.sqlite", "payout"),
        ("benchmark leaderboard . --out page.html", "payout"),
        ("explore --no-browser", "explorer"),
        (f"figures {ROOT / 'docs/results'}", "figures"),
        ("run s2 --seeds 1 --out out --cluster tcp://127.0.0.1:9", "dask"),
    ],
)
def test_a_command_that_needs_an_extra_says_so_in_one_line(line, extra, tmp_path):
    done = command(line, tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"is not installed; run: pip install 'datamarket-gym[{extra}]'\n")
    assert not any(tmp_path.iterdir())


def test_importing_what_needs_an_extra_raises_import_error_with_the_command(tmp_path):
    imports = {
        "from datamarket_gym.payout import pay": "payout",
        "from datamarket_gym.payout import open_ledger": "payout",
        "from datamarket_gym.payout import statement_html": "payout",
        "from datamarket_gym.explorer.server import explore": "explorer",
        "from datamarket_gym.execution.parallel import device_named; device_named('cuda')": "torch",
    }
    code = f"""
from datamarket_gym.errors import MissingExtraError
for line, extra in {imports}.items():
    try:
        exec(line)
    except ImportError as error:
        assert isinstance(error, MissingExtraError), line
        assert str(error).endswith(f"pip install 'datamarket-gym[{{extra}}]'"), error
    else:
        raise AssertionError(line)
"""
    done = core_only(code, tmp_path)
    assert done.returncode == 0, done.stderr
