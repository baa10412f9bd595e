"""What is shown of drawn units: pictures drawn anew and bounded, files of named folders alone."""

import base64
import io

import numpy as np
import pytest

from datamarket_gym.payout.checks.plan import PlanRequest
from datamarket_gym.payout.checks.settle import sample_checks
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places
from explorer.payout_story import market, told
from payout.payout_files import spec

PIL = pytest.importorskip("PIL.Image")
API = "/api/payout/checks"


def picture(place, seed):
    place.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, *f"{place.parent.name}/{place.name}".encode()])
    small = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
    image = PIL.fromarray(small).resize((700, 40))
    image.save(place, exif=b"Exif\x00\x00secret place")


def pictures(folder):
    """A run of pictures whose checks are drawn."""
    for k in range(3):
        for what in ("cat", "dog"):
            for seed, who in enumerate(("anna", "bert")):
                picture(folder / "units" / who / what / f"{k}.png", seed)
            picture(folder / "held" / what / f"{k}.png", 2)
    how = spec(encoder="thumbnail", amount="10.00", checks=2)
    pay(Places(folder / "units", folder / "held"), how, folder / "june")
    return folder / "june"


def drawn(run, **wishes):
    return sample_checks(run, PlanRequest(**wishes), by="drawer").drawn.draws


def test_pictures_are_drawn_anew_and_bounded(tmp_path, client):
    run = pictures(tmp_path / "market")
    first = drawn(run)[0]
    asked = client(run.parent)
    params = {"run": "market/june", "number": first.number}
    shown = told(asked, asked.get(f"{API}/unit", params=params))
    near = [other for side in shown["sides"] for other in side["others"]]
    assert [side["title"].split()[1] for side in shown["sides"]] == ["earlier", "later", "units"]
    for each in (shown["content"], *near):
        head, data = each["image"].split(";base64,")
        assert head in ("data:image/png", "data:image/jpeg")
        content = base64.b64decode(data)
        assert b"secret place" not in content
        assert max(PIL.open(io.BytesIO(content)).size) <= 640
    assert first.payee in shown["letter"]


def test_units_of_folders_that_were_not_named_are_not_shown(tmp_path, client):
    run = market(tmp_path / "market")
    drawn(run)
    asked = client(run)  # the run alone: its tables lie beside it
    refused = asked.get(f"{API}/unit", params={"run": "june", "number": 1})
    assert refused.status_code == 403
    assert "name its folder on the command line" in refused.json()["error"]
    assert asked.get(f"{API}/state", params={"run": "../june"}).status_code == 404
