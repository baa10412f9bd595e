"""Writes the README's generated parts: what its Python prints, the table of gains, and the figure.

Each part stands between two comments, `<!-- name -->` and `<!-- /name -->`. The table's rows come from
`benchmarks/overview.py`.
"""

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
ROWS = ROOT / "benchmarks" / "overview-digits.json"
FIGURE = ROOT / "docs" / "figures" / "overview.png"
COLUMNS = (
    "Shapley over identities",
    "quotient, cosine 0.99",
    "recommended",
    "recommended, 3 spot checks",
)
EMPTY_0 = "Shapley over identities, U(empty) = 0"


def output() -> str:
    """What the first block of Python prints."""
    (code, *_) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    return f"```text\n{printed.getvalue()}```\n"


def gains(rows: list[dict], mechanism: str, group: str) -> tuple[float, float]:
    """The mean gain over seeds of the variant with the largest mean, and half its 95 % interval (Student's t)."""
    by_variant: dict[str, list[float]] = {}
    for row in rows:
        if row["mechanism"] == mechanism and row["class"] == group:
            by_variant.setdefault(row["attack"], []).append(row["gain"])
    worst = max(by_variant.values(), key=np.mean)
    n = len(worst)
    return float(np.mean(worst)), float(stats.t.ppf(0.975, n - 1) * np.std(worst, ddof=1) / n**0.5)


def table() -> str:
    """Attack classes by mechanisms: gain with a 95 % interval."""
    kept = json.loads(ROWS.read_text(encoding="utf-8"))
    rows = kept["rows"]
    seeds = len({row["seed"] for row in rows})
    lines = [f"|attack of one provider|{'|'.join(COLUMNS)}|", "|---" * (1 + len(COLUMNS)) + "|"]
    for group in dict.fromkeys(row["class"] for row in rows):
        cells = []
        for mechanism in COLUMNS:
            mean, half = gains(rows, mechanism, group)
            shown = f"{mean:.2f}±{half:.2f}"
            cells.append(f"**{shown}**" if mean - half > 1.02 else shown)
        lines.append(f"|{group}|{'|'.join(cells)}|")
    searched = len({row["seed"] for row in rows if "search" in row["class"]})
    split = gains(rows, EMPTY_0, "splits into 2 to 4 identities")
    return "\n".join([
        *lines, "",
        f"Ratio of attacked to honest payment (1 = no gain; bold: above 1.02), mean and 95 % interval over {seeds} "
        f"markets of scikit-learn's digits, six providers of 50 units. Of the variants of a class the worst for the "
        f"mechanism counts; the search has {kept['trials']} trials in {searched} markets (planned: 60 in 10, cut for "
        "time). The first two columns pay by logistic regression with U(empty) = chance, the others by the "
        "recommended coverage of the validation rows (the learner `recommended`); with U(empty) = 0 the first cell is "
        f"{split[0]:.2f} ± {split[1]:.2f}.",
    ]) + "\n"  # fmt: skip


def figure() -> None:
    """Draw the three steps on a small market: units, clusters, payments."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.decomposition import PCA

    from datamarket_gym import ProviderMarket, Utility, create
    from datamarket_gym import get_mechanism as mechanism

    market = ProviderMarket.from_task(
        "digits(n_providers=4, per_provider=20, validation=200)", 0, "logistic"
    )
    profile = create("attack", "near_duplicate_2x_sybils(sigma=0.02)").apply(0, market.state)
    submission, oracle = profile.submission, market.utility_oracle(Utility.paying())
    place = PCA(2, random_state=0).fit_transform(submission.features)
    mine = profile.identities_of("provider_0")
    number = {name: n for n, name in enumerate(mine)}
    place += [
        [0.16 * number.get(str(name), 0), 0.12 * number.get(str(name), 0)]
        for name in submission.identity
    ]
    colours = dict(zip(mine, ("#D55E00", "#E69F00", "#B03A2E"), strict=True))
    colours |= dict(
        zip(("provider_1", "provider_2", "provider_3"), ("#0072B2", "#009E73", "#7F7F7F"), strict=True)
    )
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.7), dpi=110, width_ratios=(1, 1, 0.9))
    paid = mechanism("recommended").pay(submission, oracle)
    edges, owns = paid.clustering.edges, np.zeros(len(submission), dtype=bool)
    owns[paid.canonical.claim_unit] = True
    for axes in (left, middle):
        for name, colour in colours.items():
            at = submission.identity == name
            label = (
                ("provider_0", "its 2nd identity", "its 3rd identity")[number[name]]
                if name in mine
                else name
            )
            filled = at if axes is left else at & owns
            axes.scatter(*place[filled].T, s=26, color=colour, label=label, zorder=3)
            if axes is middle:
                axes.scatter(*place[at & ~owns].T, s=26, facecolors="white", edgecolors=colour, zorder=3)
        axes.set_xticks([])
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_color("#cccccc")
    for one, other in zip(edges.left, edges.right, strict=True):
        middle.plot(*place[[one, other]].T, color="#333333", lw=1.1, zorder=2)
    left.set_title("1. Units submitted under six identities,\nthree of them provider_0's", fontsize=10)
    count = paid.clustering.n_clusters
    middle.set_title(
        f"2. Evidence matches copies:\n{len(submission)} units, {count} clusters", fontsize=10
    )
    left.legend(
        fontsize=8,
        loc="upper left",
        bbox_to_anchor=(-0.02, 0),
        ncols=3,
        frameon=False,
        handletextpad=0.1,
    )
    middle.set_xlabel("hollow: matches an earlier unit, paid nothing", fontsize=9)
    gain = []
    for m, worth in (
        (mechanism("shapley"), market.utility_oracle()),
        (mechanism("recommended"), oracle),
    ):
        honest = m.pay(market.honest.submission, worth).total(["provider_0"])
        gain.append(m.pay(submission, worth).total(mine) / honest)
    bars = right.bar(
        ["Shapley over identities,\nlogistic, U(empty) = 0", "quotient of units,\nrecommended"],
        gain,
        color=["#D55E00", "#0072B2"],
        width=0.55,
    )
    right.bar_label(bars, fmt="%.2f", padding=2)
    right.axhline(1, color="#333333", lw=1, ls="--")
    right.set_ylim(0, max(gain) * 1.18)
    right.set_title("3. What provider_0 is paid,\nattacked / honest (1 = no gain)", fontsize=10)
    right.spines[["top", "right"]].set_visible(False)
    fig.tight_layout()
    fig.savefig(FIGURE)
    print(gain, len(submission), paid.clustering.n_clusters)


BLOCKS = {"output": output, "table": table}


def block(page: str, name: str) -> str:
    """The part of a page between the comments of that name."""
    return page.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for name, made in BLOCKS.items():
        opening = f"<!-- {name} -->\n"
        text = text.replace(opening + block(text, name), opening + made())
    README.write_text(text, encoding="utf-8")
    figure()
