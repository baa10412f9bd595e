"""Write the table of all settings into docs/settings.md, from the models that the commands are made of."""

import json
from pathlib import Path

from datamarket_gym.payout.market_file import file_settings
from datamarket_gym.utilities.coverage import RECOMMENDED

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
MARK = "<!-- settings: python tools/settings_page.py -->\n"


def settings_table() -> str:
    """Write every setting as a table of the documentation, in the groups of ``datamarket pay --help-all``."""
    groups: dict[str, list[str]] = {}
    for option, (_, setting) in file_settings().items():
        default = "recommended" if setting.default == RECOMMENDED else setting.default
        kept = "" if default in (None, (), []) else f"`{json.dumps(default)}`"
        text = setting.help.replace("|", r"\|")
        groups.setdefault(setting.panel or "The market", []).append(f"| `{option}` | {kept} | {text} |")
    head = "| key | if left out | |\n|---|---|---|\n"
    return "\n\n".join(f"## {title}\n\n{head}{chr(10).join(rows)}" for title, rows in groups.items())


def page(text: str) -> str:
    """The page with the table as it is now."""
    return f"{text.partition(MARK)[0]}{MARK}\n{settings_table()}\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
