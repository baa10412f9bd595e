"""The site as it is built: no warnings, links that lead somewhere, nothing loaded from elsewhere, every public name."""

import pytest

from repository import tool_named

site, html, reference = tool_named("docs_site"), tool_named("docs_html"), tool_named("docs_reference")

pytestmark = pytest.mark.filterwarnings(
    "ignore::PendingDeprecationWarning"
)  # of other people's extensions


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_says_every_public_name(tmp_path):
    out = tmp_path / "html"
    assert site.built(["--gather", str(tmp_path / "pages"), "--out", str(out)]) == 0
    described = {name for page in (out / "api").glob("*.html") for name in html.read(page).ids}
    homes = set(reference.homes().values())
    packages = {package.__name__ for package in reference.packages()}
    missing = {
        name
        for name in homes
        if name not in described and name not in packages and f"module-{name}" not in described
    }
    assert missing == set()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A site of a few pages of our own, built by the same settings."""
    pytest.importorskip("sphinx")

    def made(text):
        texts = {"index.md": "# A\n\n[b](b.md#two-words)\n\n```{toctree}\n\nb\n```\n", "b.md": text}
        monkeypatch.setattr(site, "page_texts", lambda: texts)
        words = ["--gather", str(tmp_path / "pages"), "--out", str(tmp_path / "html")]
        return site.built(words), tmp_path / "html"

    return made


def test_formulas_are_in_the_page_and_prices_are_none(small):
    answer, out = small(
        "# B\n\n## Two words\n\n$x_i \\le 1$, $0.04 an hour and $3.00.\n\n```math\n\\sum_i x_i\n```\n"
    )
    assert answer == 0
    page = (out / "b.html").read_text(encoding="utf-8")
    assert page.count("<math") == 2
    assert "$0.04 an hour and $3.00" in page
    assert html.faults(out) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# B\n\n## Two words\n\n[c](c.md)\n", "c.md"),
        ("# B\n\n## Other words\n", "two-words"),
        ("# B\n\n## Two words\n\n$\\nosuch{x}$\n", "not known"),
    ],
)
def test_what_is_wrong_is_an_error(small, text, said, capsys):
    answer, _ = small(text)
    assert answer != 0
    assert said in capsys.readouterr().err


def test_the_built_pages_are_looked_over(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#x">b</a><a href="b.html#y">b</a><a href="no.html">c</a><a href="https://x.org">d</a>'
        '<script src="https://cdn.example/x.js"></script><img src="none.png"><img src="data:,">'
    )
    (tmp_path / "b.html").write_text('<p id="x">b</p>')
    (tmp_path / "c.css").write_text(
        '@import "https://fonts.example/f.css"; a { background: url(here.png) }'
    )
    assert html.faults(tmp_path) == [
        "c.css loads https://fonts.example/f.css",
        "a.html loads https://cdn.example/x.js",
        "a.html loads none.png, which is not there",
        "a.html links to b.html#y, which is not there",
        "a.html links to no.html, which is not there",
    ]
