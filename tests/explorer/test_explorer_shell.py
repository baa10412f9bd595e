"""The shell of the explorer: it opens, tells its keys, changes its colours, and says what it cannot find."""


def test_every_page_opens_by_its_address(served, page):
    url = served()
    page.goto(f"{url}/")
    page.wait_for_selector("main[data-ready=market]")
    assert page.title() == "Market · DataMarket-Gym"
    for name in ("threshold", "benchmark", "payout"):
        page.click(f"header nav a[href='/{name}']")
        page.wait_for_selector(f"main[data-ready='{name}']")
        assert page.get_attribute(f"header nav a[href='/{name}']", "aria-current") == "page"
    page.go_back()
    page.wait_for_selector("main[data-ready=benchmark]")


def test_it_opens_on_the_page_about_what_was_named(served, page, tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "market.toml").write_text("")
    page.goto(f"{served(tmp_path / 'pool')}/")
    page.wait_for_selector("main[data-ready=payout]")
    assert page.get_attribute("header nav a[href='/payout']", "aria-current") == "page"
    page.click("header nav a[href='/market']")
    page.wait_for_selector("main[data-ready=market]")
    page.click("header .brand")
    page.wait_for_selector("main[data-ready=payout]")


def test_colours_follow_the_system_until_chosen(served, page):
    page.emulate_media(color_scheme="dark")
    page.goto(f"{served()}/benchmark")
    page.wait_for_selector("main[data-ready=benchmark]")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(20, 24, 30)"
    page.click("header [name=theme]")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    page.reload()
    page.wait_for_selector("main[data-ready=benchmark]")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"


def test_the_question_mark_tells_the_keys(served, page):
    page.goto(f"{served()}/benchmark")
    page.wait_for_selector("main[data-ready=benchmark]")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert "Keyboard" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
