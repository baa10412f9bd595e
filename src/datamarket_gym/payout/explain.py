"""explain: why did this payee get this? Read from what the run left in its folder, without the inputs."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.errors import require_known
from datamarket_gym.payout.statements.record import MOST_TIES, Explanation, explained
from datamarket_gym.payout.statements.tables import RunTables


def explain(
    folder: Path, identity: str, most_ties: int = MOST_TIES, with_rows: bool = False
) -> Explanation:
    """Explain one payee's payment of a finished run; ``with_rows``: and which validation rows its units cover."""
    tables = RunTables.read(folder)
    require_payee(tables, identity)
    return explained(tables, identity, most_ties, with_rows)


def require_payee(tables: RunTables, name: str) -> None:
    """Refuse a name that the run does not know, with those that it could have been meant to be."""
    require_known("payee", [name], tables.number)
