"""Write the table of all settings into docs/settings.md, from the models that the commands are made of."""

from pathlib import Path

from datamarket_gym.payout.market_file import settings_table

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
MARK = "<!-- settings: python tools/settings_page.py -->\n"


def page(text: str) -> str:
    """The page with the table as it is now."""
    return f"{text.partition(MARK)[0]}{MARK}\n{settings_table()}\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
