"""The page of checks and payment in a real browser: the whole story by keys, and what a reload must not lose."""

import json
from collections import Counter

import pytest
from watched_pages import opened

from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.checks.draw import draw_checks, draw_key, draw_units, read_checks
from datamarket_gym.payout.checks.outcomes import answers_of
from datamarket_gym.payout.checks.plan import (
    CheckPlan,
    PlanRequest,
    make_plan,
    paid_payees,
    preview_plan,
)
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.manifest import NAME, read_manifest
from explorer.payout_story import accounts_of, by_library, entries, market

SLOW = 90_000  # long work begins in a process of its own


@pytest.fixture
def june(tmp_path):
    return market(tmp_path / "market")


def write(page, name, text):
    """Type into a field."""
    page.focus(f"[name={name}]")
    page.keyboard.press("Control+a")
    page.keyboard.type(text)


def press(page, name):
    """Press a button by its key, once it can be."""
    page.wait_for_selector(f"button[name={name}]:enabled")
    page.focus(f"[name={name}]")
    page.keyboard.press("Enter")


def away(page):
    """Leave whatever field has the focus, so that keys are answers."""
    page.evaluate("document.activeElement.blur()")


def open_at(page, url, run="market/june", step=""):
    page.set_default_timeout(SLOW)
    page.goto(f"{url}/payout/checks?run={run}" + (f"&step={step}" if step else ""))
    page.wait_for_selector("main[data-ready='payout/checks']")


def recorded(page):
    """Until no answer waits in the browser."""
    press(page, "record")
    for _ in range(600):
        if not page.evaluate(
            "Object.keys(localStorage).some(key => key.startsWith('datamarket answer'))"
        ):
            return
        page.wait_for_timeout(50)
    raise AssertionError("answers wait in the browser that were not recorded")


def person(look, before):
    return ["Ann", "Ben", "Cara", "Dan", "Eve"][look - 1 + 2 * bool(before)]


def look_through(page, run, false=()):
    """Answer every check by its key."""
    drawn = read_checks(run)
    for draw in drawn.draws:
        who = person(
            drawn.check_numbers[draw.unit].index(draw.number) + 1, drawn.before.get(draw.unit, [])
        )
        if page.input_value("[name=by]") != who:
            recorded(page)
            write(page, "by", who)
            away(page)
        page.click(f"[name=check-{draw.number}]")
        page.wait_for_selector(f"text=Check {draw.number}:")
        page.keyboard.press("e")
        page.keyboard.type("seen")
        page.keyboard.press("Escape")
        page.keyboard.press("n" if draw.payee in false else "g")
    recorded(page)
    if page.input_value("[name=by]") != "Ann":
        write(page, "by", "Ann")
        away(page)


def plan_and_draw(page, beacon):
    page.select_option("[name=draw-by]", "other")
    write(page, "announcement", f"the hash of {beacon}")
    press(page, "announce")
    page.wait_for_selector("[name=beacon]")
    write(page, "beacon", beacon)
    press(page, "draw")
    page.wait_for_selector("[data-step=review]")


def test_from_the_draft_to_the_payment_by_keys(june, tmp_path, explorers, page):
    found = explorers(june.parent)
    url, token = found.url.rstrip("/"), found.site.token.text
    open_at(page, url)
    write(page, "by", "Ann")
    plan_and_draw(page, "block 1")
    loser = read_checks(june).draws[0].payee
    look_through(page, june, [loser])
    press(page, "step-settle")
    page.wait_for_selector(f"text={loser} failed")
    press(page, "settle")
    page.wait_for_selector("[data-state=superseded]")
    page.click("a[name=later]")
    page.wait_for_selector("[data-step=plan]")
    later = june.with_name("june-2")
    plan_and_draw(page, "block 2")
    if read_checks(later).draws:
        look_through(page, later)
        press(page, "step-settle")
        page.wait_for_selector("text=All payees passed")
        press(page, "settle")
    else:  # nothing new to look at: it is checked by the draw
        press(page, "step-approve")
    page.wait_for_selector("[data-step=approve]")
    assert page.is_disabled("[name=approve]")
    for box in page.query_selector_all("[name^=accept-]"):
        assert page.is_disabled("[name=approve]")
        box.focus()
        page.keyboard.press("Space")
    page.watch.expected.append("403")
    write(page, "token", "wrong")
    press(page, "approve")
    page.wait_for_selector("text=that is not the token")
    assert run_of(later).state == "checked"
    write(page, "token", token)
    press(page, "approve")
    page.wait_for_selector("[data-step=pay]")
    assert page.inner_text("main > [role=status]") == "approved"
    assert run_of(later).state == "approved"
    accounts = accounts_of(tmp_path, [line.identity for line in run_of(later).lines])
    page.set_input_files("[name=accounts]", accounts)
    write(page, "payer-name", "Market")
    write(page, "payer-account", "DE89370400440532013000")
    write(page, "export-token", token)
    with page.expect_download() as saved:
        press(page, "export")
    assert "pain.001.001.09" in saved.value.path().read_text()
    write(page, "reference", "transfer 7")
    write(page, "paid-token", token)
    press(page, "paid")
    page.wait_for_selector("[data-state=paid]")
    assert token not in page.url
    assert token not in page.evaluate("JSON.stringify(localStorage) + document.body.innerText")
    other, _ = by_library(tmp_path / "elsewhere" / "market", [loser], accounts, ("Ann",) * 6, person)
    assert of_story(june) == of_story(other.with_name("june"))
    assert answers_of(june) == answers_of(other.with_name("june"))


def of_story(run):
    """All entries, but how many answers were recorded at a time."""
    return [rest for _, *rest in entries(ledger_of(run)) if rest[0] != "answers"]


def beacon_that_draws_two_units_once(run):
    """Draws depend on the run's hash; a unit that is drawn twice needs two people."""
    plan, payees = str(run_of(run).plan), paid_payees(run, read_manifest(run))
    for block in range(2, 200):
        key = draw_key(sha256(run / NAME), plan, f"block {block}")
        draws, _ = draw_units(key, CheckPlan.model_validate_json(plan), payees)
        times = Counter(draw.unit for draw in draws)
        if times[draws[0].unit] == times[draws[1].unit] == 1:
            return f"block {block}"
    raise AssertionError("no beacon")


def test_answers_outlive_a_reload_and_undo_leaves_no_trace(tmp_path, served, page, chromium):
    june = market(tmp_path / "market", learner="coverage")  # pays three units of the first payee or more
    make_plan(june, PlanRequest(announce="block 1", checks=3), "planner")
    drawn = draw_checks(june, beacon_that_draws_two_units_once(june), "drawer")
    first, second, third = [draw.number for draw in drawn.draws[:3]]
    once = {numbers[0] for numbers in drawn.check_numbers.values() if len(numbers) == 1}
    assert {first, second} <= once
    url = served(june.parent)
    page.add_init_script("localStorage.setItem('datamarket who', 'Ann')")
    open_at(page, url)
    page.wait_for_selector(".sides")
    page.keyboard.press("n")
    page.keyboard.press("u")  # a slip
    page.wait_for_selector(f"text=The answer to check {first} was taken back")
    page.keyboard.press("g")
    page.keyboard.press("a")
    assert "1 of 12, 1 to ask" in page.inner_text("[data-step=review]")
    page.reload()
    page.wait_for_selector("main[data-ready='payout/checks']")
    page.wait_for_selector("text=1 of 12, 1 to ask")
    recorded(page)
    kept = json.loads((june / "checks" / "outcomes.json").read_text())["history"]
    assert [(each["number"], each["outcome"]) for each in kept] == [
        (first, "genuine"),
        (second, "unanswered"),
    ]
    assert f"number={third}" in page.url
    page.keyboard.press("k")
    page.wait_for_selector(f"text=Check {second}:")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"text=Check {third}:")

    other = opened(chromium)
    other.add_init_script("localStorage.setItem('datamarket who', 'Ben')")
    open_at(other, url)
    other.wait_for_selector("text=1 of 12, 1 to ask")
    other.click(f"[name=check-{first}]")
    other.wait_for_selector(f"text=Check {first}:")
    page.click(f"[name=check-{first}]")
    page.keyboard.press("n")
    recorded(page)  # a correction of what it shows
    other.keyboard.press("g")
    other.keyboard.press("u")
    other.keyboard.press("a")
    recorded(other)
    other.click(f"[name=check-{first}]")
    other.wait_for_selector("text=Ann answered this check meanwhile")
    assert "1 of 12, 1 to ask" in other.inner_text("[data-step=review]")
    assert "1 refused" in other.inner_text("[data-step=review]")
    assert answers_of(june)[first].outcome == "false"
    assert other.watch.left() == []
    other.context.close()


def test_a_second_check_by_the_same_person_is_refused_at_once_and_not_counted(tmp_path, served, page):
    june = market(tmp_path / "market")
    make_plan(june, PlanRequest(announce="block 1", checks=12), "planner")
    drawn = draw_checks(june, "block 1", "drawer")
    first, second = next(numbers for numbers in drawn.check_numbers.values() if len(numbers) > 1)[:2]
    page.add_init_script("localStorage.setItem('datamarket who', 'Ann')")
    open_at(page, f"{served(june.parent)}")
    page.click(f"[name=check-{first}]")
    page.wait_for_selector(f"text=Check {first}:")
    page.keyboard.press("g")
    page.click(f"[name=check-{second}]")
    page.wait_for_selector(f"text=Check {second}:")
    page.keyboard.press("g")
    page.wait_for_selector(f"text=Ann checked this unit before (check {first})")
    assert f"number={second}" in page.url
    assert page.inner_text(f"[name=check-{second}]") == "!"
    recorded(page)
    page.wait_for_selector(f"text=1 of {len(drawn.draws)}, 0 to ask")
    assert set(answers_of(june)) == {first}
    write(page, "by", "Ben")
    away(page)
    page.keyboard.press("g")
    recorded(page)
    assert answers_of(june)[second].by == "Ben"


def test_a_plan_is_told_as_one_types_and_written_by_the_button_alone(june, served, page):
    open_at(page, served(june.parent))
    entered = ledger_of(june).accounts().number
    for name, text in (("checks", "5"), ("price", "2.50"), ("least", "1.00")):
        write(page, name, text)
    page.wait_for_selector("text=cost, at most")
    wishes = PlanRequest(checks=5, price="2.50", least="1.00")
    for what, value in preview_plan(june, wishes).rows("EUR"):
        page.wait_for_selector(f".foreseen dt:text-is('{what}') + dd:text-is('{value}')")
    page.wait_for_selector("text=only the operator's word")
    page.select_option("[name=draw-by]", "drand")
    page.wait_for_selector("text=The beacon will be")
    page.select_option("[name=draw-by]", "local")
    assert ledger_of(june).accounts().number == entered
    press(page, "draw")  # nobody has said who they are
    assert ledger_of(june).accounts().number == entered
    write(page, "by", "Ann")
    press(page, "draw")
    page.wait_for_selector("[data-step=review]")
    assert [e.kind for e in run_of(june).history] == ["draft", "planned", "drawn"]
    assert (june / "letters.csv").is_file()
