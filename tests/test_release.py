"""What a release says of itself agrees; its files hold nothing that does not belong."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import date

import pytest
import trove_classifiers
from packaging.metadata import Metadata

import datamarket_gym
from repository import ROOT

yaml = pytest.importorskip("yaml")
VERSION = datamarket_gym.__version__
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_changelog_has_what_is_unreleased_then_this_version_with_its_day_then_earlier_ones():
    headings = re.findall(r"^## (.+)$", CHANGES, flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", headings[1])
    versions = [tuple(map(int, heading.split()[0].split("."))) for heading in headings[1:]]
    assert all(len(version) == 3 for version in versions)
    assert versions == sorted(set(versions), reverse=True)


def test_the_citation_names_this_version_its_day_and_the_paper():
    """CFF 1.2.0: its required keys, and the kinds of those that are read by machines."""
    said = read_yaml("CITATION.cff")
    assert said["cff-version"] == "1.2.0"
    assert said["type"] == "software"
    assert {"message", "title", "authors"} <= said.keys()
    known = {"cff-version", "message", "title", "type", "authors", "version", "date-released"}
    assert said.keys() <= known | {
        "license",
        "keywords",
        "references",
        "abstract",
        "repository-code",
        "url",
        "doi",
    }
    assert said["version"] == VERSION
    day = re.search(rf"^## {re.escape(VERSION)} \((.+)\)$", CHANGES, flags=re.MULTILINE)[1]
    assert said["date-released"] == date.fromisoformat(day).isoformat()
    assert said["license"] == "Apache-2.0"
    assert said["keywords"] == PROJECT["project"]["keywords"]
    (paper,) = said["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Burnat", "Davidson"]
    assert paper["year"] == 2026
    title = "Quotient Semivalues for False-Name-Resistant Data Attribution"
    assert paper["title"] == title
    assert title in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_workflow_runs_the_tests_on_every_python_that_is_claimed_and_needs_no_secret():
    text = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    claimed = [
        c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)
    ]
    assert jobs["test"]["strategy"]["matrix"]["python"] == claimed
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run", "make wheel"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o100
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", ["bug", "entry", "question"])
def test_templates_of_issues_ask_with_ids_of_their_own(name):
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    asked = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in asked}) == len(asked)
    assert {each["type"] for each in asked} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert any(each.get("validations", {}).get("required") for each in asked)


def test_a_new_attack_takes_less_than_thirty_lines_with_its_checker(capsys):
    from datamarket_gym import registry

    source = (ROOT / "examples/attack_in_thirty_lines.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 30
    assert "validate_attack(Echo())" in source
    try:
        exec(compile(source, "attack_in_thirty_lines.py", "exec"), {"__name__": "example"})
    finally:
        registry._components["attack"].pop("echo", None)
    gains = dict(re.findall(r"^(\w+): (\S+) times", capsys.readouterr().out, flags=re.MULTILINE))
    assert float(gains["shapley"]) > 1.2
    assert float(gains["recommended"]) == 1.0


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The files of a release of this working tree."""
    out = tmp_path_factory.mktemp("dist")
    pytest.importorskip("hatchling")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=ROOT, check=True)
    return out


def test_the_wheel_holds_the_package_and_nothing_beside_it(dist):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"datamarket_gym", f"datamarket_gym-{VERSION}.dist-info"}
    assert [n for n in names if "__pycache__" in n or n.endswith((".pyc", ".nbi", ".nbc"))] == []
    here = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src/datamarket_gym").rglob("*.py")}
    assert here <= set(names)
    assert [name for name in names if re.search(r"(^|/)(tests?/|test_|conftest)", name)] == []
    assert "datamarket_gym/py.typed" in names


def test_the_metadata_are_those_that_an_index_asks_for(dist):
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        folder = f"datamarket_gym-{VERSION}.dist-info"
        text = file.read(f"{folder}/METADATA")
        licenses = {n.removeprefix(f"{folder}/licenses/") for n in file.namelist() if "/licenses/" in n}
    with tarfile.open(sdist) as file:
        pkg_info = file.extractfile(f"datamarket_gym-{VERSION}/PKG-INFO").read()
        assert {f"datamarket_gym-{VERSION}/{name}" for name in licenses} <= set(file.getnames())
    assert text == pkg_info
    found = Metadata.from_email(text, validate=True)  # of wrong fields, versions, markers and licences
    project = PROJECT["project"]
    assert found.metadata_version == "2.4"
    assert (found.name, str(found.version)) == ("datamarket-gym", VERSION)
    assert found.summary == project["description"]
    assert str(found.requires_python) == project["requires-python"]
    assert found.license_expression == project["license"]
    assert set(found.license_files) == set(project["license-files"]) == licenses
    assert set(found.keywords) == set(project["keywords"])
    assert set(found.classifiers) == set(project["classifiers"]) <= trove_classifiers.classifiers
    assert set(found.provides_extra) == set(project["optional-dependencies"])
    assert not any(need.url for need in found.requires_dist)  # an index takes none
    assert found.description_content_type == "text/markdown"


def test_the_readme_of_an_index_page_leads_to_no_file_beside_it(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from hatch_build import index_readme

    page = index_readme((ROOT / "README.md").read_text(encoding="utf-8"))
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\]\((?!\w+://|#)[^)]*\)|^\[[^\]]+\]: (?!\w+://)|<img", prose, re.MULTILINE) == []
    text = "![a figure](docs/a.png)\nSee [`pay`](docs/pay.md#how), [x[0]](y) and [it](https://a.example/b).\n"
    assert index_readme(text) == "See `pay`, x[0] and [it](https://a.example/b).\n"
    code = "```python\nrow[0](docs)\n```\n"
    assert index_readme(code) == code


def test_the_sdist_holds_sources_and_pages_no_data_and_no_built_site(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    allowed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    tops = {name.split("/")[0] for name in names}
    assert tops <= {*allowed, "PKG-INFO", ".gitignore"}
    assert {"src", "pyproject.toml", "CHANGELOG.md", "CITATION.cff", "LICENSE"} <= tops
    assert [n for n in names if re.search(r"(^|/)(docs|tests|shared|runs|_build|\.venv)/", n)] == []
    assert sdist.stat().st_size < 5_000_000
