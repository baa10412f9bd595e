"""Folders of images without labels: identity/image beside identity/label/image, told apart by where images lie."""

import json

import pytest
from payout_files import cents, spec, warned
from test_image_folders import HOW, picture, skipped

from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.payout.input_files import image_tree
from datamarket_gym.payout.inputs import require_label_columns
from datamarket_gym.payout.intake import read_batch
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import Columns, Files
from datamarket_gym.payout.stored_inputs import Places

pytest.importorskip("PIL")


def lay(folder, *, labels):
    """The same pictures of two people and of the buyer, with folders of labels or without."""
    for k in range(4):
        for what in ("cat", "dog"):
            for seed, who in enumerate(("anna", "bert")):
                place = (what, f"{k}.png") if labels else (f"{what}-{k}.png",)
                picture(folder.joinpath("units", who, *place), seed)
            picture(folder.joinpath("held", *((what,) if labels else ()), f"{what}-{k}.png"), 2)
    return folder


def test_a_folder_without_folders_of_labels_is_paid(tmp_path):
    lay(tmp_path, labels=False)
    picture(tmp_path / "units" / "nobody.png")
    picture(tmp_path / "held" / "a" / "b" / "deep.png")
    manifest = pay(Places(tmp_path / "units", tmp_path / "held"), spec(**HOW), tmp_path / "run")
    assert manifest["labelled"] is False
    assert manifest["units"] == 16
    assert sum(cents(tmp_path / "run").values()) == 1000
    assert "labels_ignored" not in warned(tmp_path / "run")
    assert skipped(tmp_path / "run") == [
        "submissions: nobody.png: lies too high: move it to identity/image",
        "validation: a/b/deep.png: lies too deep: move it to image",
    ]


def test_who_uses_the_other_layout_has_nobody_elses_images_skipped(tmp_path):
    """Of a market without labels one image in a folder took the whole amount: everybody else's lay too high."""
    lay(tmp_path, labels=False)
    plain = pay(Places(tmp_path / "units", tmp_path / "held"), spec(**HOW), tmp_path / "plain")
    picture(tmp_path / "units" / "carl" / "cat" / "0.png", 7)
    picture(tmp_path / "units" / "carl" / "cat" / "too" / "deep.png", 8)
    mixed = pay(Places(tmp_path / "units", tmp_path / "held"), spec(**HOW), tmp_path / "mixed")
    assert (plain["units"], mixed["units"], mixed["labelled"]) == (16, 17, False)
    assert cents(tmp_path / "mixed")["anna"] > 0
    assert skipped(tmp_path / "mixed") == [
        "submissions: carl/cat/too/deep.png: lies too deep: move it to identity/label/image or identity/image"
    ]
    lay(tmp_path / "deep", labels=True)
    picture(tmp_path / "deep" / "units" / "carl" / "0.png", 7)
    other = pay(Places(tmp_path / "deep" / "units", tmp_path / "held"), spec(**HOW), tmp_path / "other")
    assert (other["units"], other["labelled"]) == (17, False)


def test_where_labels_are_asked_for_images_without_one_are_skipped(tmp_path):
    lay(tmp_path, labels=True)
    picture(tmp_path / "units" / "carl" / "0.png", 7)
    found = image_tree(tmp_path / "units", identities=True)
    assert set(found.identity) == {"anna", "bert"}
    assert found.skipped == [("carl/0.png", "lies too high: move it to identity/label/image")]


def test_labels_of_one_folder_do_not_count(tmp_path):
    lay(tmp_path / "a", labels=True)
    lay(tmp_path / "b", labels=False)
    pay(Places(tmp_path / "a" / "units", tmp_path / "b" / "held"), spec(**HOW), tmp_path / "one")
    assert "labels_ignored" in warned(tmp_path / "one")
    assert json.loads((tmp_path / "one" / "manifest.json").read_text())["labelled"] is False


def test_where_labels_are_needed_the_layout_is_named(tmp_path):
    lay(tmp_path, labels=False)
    with pytest.raises(
        SubmissionError, match=r"no folders of labels \(identity/label/image\).*coverage"
    ):
        pay(Places(tmp_path / "units", tmp_path / "held"), spec(learner="knn", **HOW), tmp_path / "run")


def test_a_folder_of_neither_layout_names_both(tmp_path):
    (tmp_path / "units" / "anna").mkdir(parents=True)
    (tmp_path / "units" / "anna" / "x.heic").write_bytes(b"x")
    with pytest.raises(
        DataMarketError, match=r"as identity/label/image, nor, without labels, as identity/image"
    ):
        image_tree(tmp_path / "units", identities=True)


def test_a_batch_of_one_submitter_has_the_digests_of_the_whole_folder(tmp_path):
    lay(tmp_path, labels=False)
    whole = read_batch(tmp_path / "units", Columns(), Files())
    for who in ("anna", "bert"):
        alone = tmp_path / f"of {who}" / who
        alone.parent.mkdir()
        (tmp_path / "units" / who).rename(alone)
        part = read_batch(alone.parent, Columns(), Files())
        assert part.digests == [
            d for d, i in zip(whole.digests, whole.identity, strict=True) if i == who
        ]


def test_one_image_in_a_folder_of_a_label_does_not_leave_out_everybody_elses(tmp_path):
    """The operator's rows have labels, the units none: then labels do not count, whoever adds a folder."""
    lay(tmp_path / "flat", labels=False)
    lay(tmp_path / "deep", labels=True)
    held = tmp_path / "deep" / "held"
    paid = pay(Places(tmp_path / "flat" / "units", held), spec(**HOW), tmp_path / "run")
    assert (paid["units"], paid["labelled"]) == (16, False)
    picture(tmp_path / "flat" / "units" / "carl" / "cat" / "0.png", 7)
    with pytest.raises(
        DataMarketError, match="1 images as identity/label/image and 16 as identity/image"
    ):
        pay(Places(tmp_path / "flat" / "units", held), spec(**HOW), tmp_path / "other")


def test_rows_of_the_buyer_in_both_layouts_are_refused(tmp_path):
    lay(tmp_path, labels=False)
    picture(tmp_path / "held" / "cat" / "0.png", 7)
    with pytest.raises(DataMarketError, match="1 images as label/image and 8 as image"):
        pay(Places(tmp_path / "units", tmp_path / "held"), spec(**HOW), tmp_path / "run")


def test_folders_with_labels_have_what_accuracy_needs(tmp_path):
    lay(tmp_path, labels=True)
    places = {"submissions": tmp_path / "units", "validation": tmp_path / "held"}
    require_label_columns(places, spec(**HOW, learner="knn"))
    with pytest.raises(SubmissionError, match="no folders of labels"):
        require_label_columns(
            {**places, "validation": tmp_path / "held" / "cat"}, spec(**HOW, learner="knn")
        )
