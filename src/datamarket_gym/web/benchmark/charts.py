"""The pictures of the experiments that have a shape of their own: the panels of their figures, for a page to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from datamarket_gym.core.errors import UnknownNameError
from datamarket_gym.core.progress import Progress
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures import checks, periods, several, utilities
from datamarket_gym.lab.figures.curves import frontier_panels
from datamarket_gym.lab.figures.domains import larger_panels, threshold_panel
from datamarket_gym.lab.figures.drawing import note
from datamarket_gym.lab.figures.grids import noise_rows
from datamarket_gym.lab.figures.responses import response_panels
from datamarket_gym.lab.figures.words import attack_words
from datamarket_gym.web.benchmark.panels import Panel, cells, dots, grid, lines, matrix
from datamarket_gym.web.benchmark.reading import WantedResults

Rows = Sequence[Row]
_NET = "expected net gain"
_SYMLOG = "linear up to 1, logarithmic beyond"


@dataclass(frozen=True)
class Picture:
    """A picture of some experiments: its panels, from their rows and those of the one ``beside``, and what to know."""

    name: str
    title: str
    of: tuple[str, ...]
    panels: Callable[[Rows, Rows], list[Panel]]
    says: tuple[str, ...] = ()
    beside: str = ""


def charts_of(asked: WantedResults) -> list[Picture]:
    """The pictures of an experiment, if it was run as it is built in."""
    if not asked.has_own_pictures:
        return []
    return [one for one in PICTURES if asked.read().spec.name in one.of]


def chart(asked: WantedResults, name: str, progress: Progress) -> dict[str, Any]:
    """A picture by name."""
    progress.stage("reading the results")
    found = {one.name: one for one in charts_of(asked)}
    if name not in found:
        raise UnknownNameError("picture of this experiment", name, found)
    one = found[name]
    rows = [row for row in asked.read().rows if row.get("value") is not None]
    panels = one.panels(rows, asked.beside(one.beside) if one.beside else [])
    return {
        "name": name,
        "title": one.title,
        "says": [*one.says, note(rows)],
        "groups": list(dict.fromkeys(panel["group"] for panel in panels if panel["group"])),
        "panels": panels,
    }


def _frontier(rows: Rows, _: Rows) -> list[Panel]:
    said = {"gain": "gain", "oracle_l1": "L1 distance to pay under true owners"}
    return [
        {
            **lines(panel, said[panel.group], honest=1.0 if panel.group == "gain" else None),
            "group": "",
            "title": f"{panel.title}: {panel.group.replace('oracle_l1', 'fairness')}",
        }
        for panel in frontier_panels(rows)
    ]


def _domain(rows: Rows, geometry: Rows) -> list[Panel]:
    rows = [row for row in rows if row.get("task") != "all"]
    return [lines(threshold_panel(rows, geometry), "gain", honest=1.0)]


def _larger(rows: Rows, _: Rows) -> list[Panel]:
    return [lines(panel, "gain", honest=1.0) for panel in larger_panels(rows)]


def _noise(rows: Rows, _: Rows) -> list[Panel]:
    attack = attack_words(rows[0]["attack"])
    return [
        grid(f"{title} (attack: {attack})", found, "p_fs", "p_fm")
        for title, found in noise_rows(rows).items()
    ]


def _responses(rows: Rows, _: Rows) -> list[Panel]:
    return [dots(panel, "net gain") for panel in response_panels(rows)]


def _checks(rows: Rows, _: Rows) -> list[Panel]:
    return [
        lines(panel, _NET, scale="net", honest=1.0, bar=checks.BAR)
        for panel in checks.check_panels(rows)
    ]


def _checked_attacks(rows: Rows, _: Rows) -> list[Panel]:
    return [
        cells(panel, down="attack", across="market", bar=checks.BAR)
        for panel in checks.attack_panels(rows)
    ]


def _knowledge(rows: Rows, _: Rows) -> list[Panel]:
    return [
        lines(panel, _NET, scale="net", honest=1.0, bar=checks.BAR)
        for panel in checks.knowledge_panels(rows)
    ]


def _copies(rows: Rows, _: Rows) -> list[Panel]:
    return [
        lines(
            panel,
            "gain of the thief",
            scale="net",
            across="levels",
            honest=1.0,
            bar=periods.BARS["gain"],
        )
        for panel in periods.noise_panels(rows, "gain")
    ]


def _victims(rows: Rows, _: Rows) -> list[Panel]:
    bar = periods.BARS["victim_loss"]
    return [
        lines(panel, "largest loss of a victim", scale="percent", across="levels", bar=bar)
        for panel in periods.noise_panels(rows, "victim_loss")
    ]


def _dimensions(rows: Rows, _: Rows) -> list[Panel]:
    bar = periods.BARS["gain"]
    return [
        lines(panel, "gain of the thief", across="levels", honest=1.0, bar=bar)
        for panel in periods.dimension_panels(rows)
    ]


def _utilities(rows: Rows, _: Rows) -> list[Panel]:
    return [
        cells(panel, down="attack", across="utility", bar=utilities.BAR)
        for panel in utilities.gain_panels(rows)
    ]


def _numbers(rows: Rows, _: Rows) -> list[Panel]:
    return [
        cells(panel, down="attack", across="market and utility", bar=utilities.BAR)
        for panel in utilities.number_panels(rows)
    ]


def _agreement(rows: Rows, _: Rows) -> list[Panel]:
    found = []
    for metric, where, title, distance in utilities.AGREEMENT:
        names, values = utilities.agreed(rows, metric, where)
        words = [utilities.UTILITIES[name] for name in names]
        found.append(matrix(title, words, values.tolist(), highest=not distance))
    return found


def _removal(rows: Rows, _: Rows) -> list[Panel]:
    return [
        lines(panel, "accuracy", scale="percent", across="percent")
        for panel in utilities.removal_panels(rows)
    ]


def _several(rows: Rows, _: Rows) -> list[Panel]:
    return [
        {**lines(panel, " ".join(panel.title.split()), honest=1.0), "group": "", "title": panel.group}
        for metric in several.SHOWN
        for panel in several.several_panels(rows, metric)
    ]


_COPIES = (
    "beside its own new units the thief sells copies of all that others sold before",
    "newcomers: those others are gone; continuing: everybody sells in both periods",
)
PICTURES = (
    Picture("frontier", "Threshold frontier", ("s4",), _frontier),
    Picture(
        "threshold", "Gain along the threshold", ("agnews", "imdb", "cifar10", "stl10"), _domain,
        ("upright: the measured bounds of an admissible threshold, and the predicted one",), "predict-theta",
    ),
    Picture("larger", "Gain along the threshold", ("agnews-s9", "cifar10-s9"), _larger),
    Picture("noise", "Noise grid", ("s5", "ablation-noise"), _noise),
    Picture(
        "responses", "Best responses", ("best-response",), _responses,
        ("net gain: payment less costs, over honest pay; 1 is what honesty pays",),
    ),
    Picture(
        "checks", "By the number of spot checks", ("s11",), _checks,
        (f"a line is an attack that knows everything; checks of power {checks.POWER}",
         f"dotted: {checks.BAR}; {_SYMLOG}"),
    ),
    Picture(
        "attacks", "Every attack, without checks and with most", ("s11",), _checked_attacks,
        (f"expected net gain without checks \u2192 with most, of power {checks.POWER}; each the largest over what the "
         f"attacker knows; marked: still above {checks.BAR}",),
    ),
    Picture(
        "knowledge", "Best responses by what is known", ("s11",), _knowledge,
        (f"the best attack of a search in that very market; checks of power {checks.POWER}, open marks: 1", _SYMLOG),
    ),
    Picture("copies", "What copies of an earlier period gain", ("s12",), _copies, (*_COPIES, _SYMLOG)),
    Picture("victims", "What their owners lose", ("s12",), _victims, _COPIES),
    Picture("dimensions", "Gain of copies by the number of features", ("s12-dimensions",), _dimensions),
    Picture(
        "utilities", "Gain under every utility", ("s13",), _utilities,
        ("on real data the largest of the domains' means; empty: the attack needs labels",
         f"marked: above {utilities.BAR}"),
    ),
    Picture("numbers", "Gain where labels are numbers", ("s13-regression",), _numbers,
            (f"marked: above {utilities.BAR}",)),
    Picture(
        "removal", "What a model misses of what utilities value", ("s13-values",), _removal,
        ("logistic regression trained on the units that are left, tested on rows that are neither units nor "
         "validation rows",),
    ),
    Picture("several", "By the number of cheats", ("s14",), _several, several.SAID),
    Picture("agreement", "How utilities agree", ("s13-values",), _agreement,
            ("everybody is honest; means over the domains",)),
)  # fmt: skip
"""All pictures, in the order in which a page offers them."""
