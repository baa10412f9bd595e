"""Print the utility that the rule of experiment ``frontier`` chooses, and all points that it did not choose.

    python tools/choose_utility.py [RESULTS]

RESULTS holds the results of ``frontier`` and ``lds``: a folder of runs, or compact results (``docs/results``).
"""

import argparse
from pathlib import Path

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.results import list_results, read_results
from datamarket_gym.experiments.utility_choice import choice_table, choose_utility, utility_points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=Path("docs/results"))
    rows = {
        place.name: read_results(place).rows
        for place in list_results(parser.parse_args().results)
        if place.name in ("frontier", "lds")
    }
    points = utility_points(rows.get("frontier", []), rows.get("lds", []))
    print("\n".join(choice_table(points)))
    try:
        print(f"\nchosen: {choose_utility(points).learner}")
    except DataMarketError as error:
        print(f"\nnothing is chosen: {error}")


if __name__ == "__main__":
    main()
