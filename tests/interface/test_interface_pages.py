"""The pages on the paper's interface, lineage and payout runs say what runs."""

import re
from pathlib import Path

import pytest

from datamarket_gym.payout.overrides import read_overrides

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name):
    """All Python blocks of a page in one scope, in order; the scope."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    scope = {}
    for block in blocks:
        exec(compile(block, name, "exec"), scope)
    return scope


def test_the_paper_interface_page_runs():
    scope = run_page("paper-interface.md")
    assert scope["report"].gain == pytest.approx(1.0)
    assert scope["budget_balanced"](scope["payments"])
    found = scope["estimate"](scope["game"], "banzhaf", "subset", samples=64)
    assert found.samples == 64


def test_every_line_the_paper_prints_is_on_the_page():
    page = (DOCS / "paper-interface.md").read_text(encoding="utf-8")
    for line in (
        "ProviderMarket(dataset, provider_partition, learner, utility)",
        "Attack.apply(provider_id, market_state) -> submitted_profile",
        "EvidenceGraph.build(submitted_profile, oracle, threshold) -> clusters",
        "Valuator.fit(clusters, utility_oracle, semivalue, budget) -> cluster_values",
        "Allocator.allocate(cluster_values, provenance_policy) -> payments",
        "Metrics.evaluate(payments, latent_owners, honest_reference) -> report",
    ):
        assert f"# {line}\n" in page


def test_the_lineage_page_runs():
    """Every edge is a unit and its parent: as many trees as units without one."""
    scope = run_page("lineage.md")
    clusters, honest = scope["clusters"], len(scope["market"].honest.submission)
    assert clusters.n_clusters + len(clusters.edges) == len(scope["submission"])
    assert (clusters.n_clusters, len(clusters.edges)) == (honest, 20)


def test_the_overrides_of_the_payout_page_are_read(tmp_path):
    page = (DOCS / "payout.md").read_text(encoding="utf-8")
    (overrides,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "overrides.toml").write_text(overrides, encoding="utf-8")
    assert [signed.by for signed in read_overrides(tmp_path / "overrides.toml")] == ["R. Okafor"] * 2
