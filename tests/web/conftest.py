"""A real server and a real browser for the explorer's pages."""

import contextlib
import shutil
import threading
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

from starlette.testclient import TestClient

from datamarket_gym.web.serve import Asked, serving
from datamarket_gym.web.workers import Setup

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
OWN = {"x-datamarket": "explorer"}
WARM = Setup(modules=("datamarket_gym.web.warm",))


@contextlib.contextmanager
def running(asked):
    """An explorer that serves in a thread; what it serves, and where."""
    with serving(asked) as found:
        thread = threading.Thread(target=found.run, daemon=True)
        thread.start()
        while not found.server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield found
        finally:
            found.server.should_exit = True
            thread.join(timeout=20)
            assert not thread.is_alive(), "the server did not stop"


@pytest.fixture(scope="module")
def explorers():
    """Starts explorers, each once for what it is asked to show, and ends them after the module."""
    with contextlib.ExitStack() as stack:
        known = {}

        def start(*paths, workers=1, **options):
            named = tuple(map(str, paths))
            key = (named, workers, tuple(sorted(options.items())))
            if key not in known:
                asked = Asked(named=named, port=0, workers=workers, setup=WARM, **options)
                known[key] = stack.enter_context(running(asked))
            return known[key]

        yield start


@pytest.fixture
def served(explorers):
    """``served(path, ..., workers=1)``: the address of an explorer that shows these, without the last slash."""
    return lambda *paths, **options: explorers(*paths, **options).url.rstrip("/")


@pytest.fixture
def client():
    """``client(path, ...)``: asks an explorer that computes in this process, with the headers of its own pages."""
    with contextlib.ExitStack() as stack:

        def start(*paths, **options):
            asked = Asked(named=tuple(map(str, paths)), port=0, workers=0, **options)
            found = stack.enter_context(serving(asked))
            url = found.url.rstrip("/")
            made = TestClient(
                found.server.config.app,
                base_url=url,
                headers={**OWN, "origin": url},
                raise_server_exceptions=False,
            )
            made.site = found.site
            return stack.enter_context(made)

        yield start


@pytest.fixture(scope="session")
def chromium():
    """Debian's chromium through playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if program is None:
        pytest.skip("there is no chromium to look at pages with")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


class Watch:
    """What went wrong on a page: said to the console, thrown, refused, or asked of another host."""

    def __init__(self, page):
        self.wrong, self.expected = [], []
        page.on(
            "console",
            lambda said: said.type in ("error", "warning") and self.note(f"console: {said.text}"),
        )
        page.on("pageerror", lambda error: self.note(f"thrown: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", lambda got: got.status >= 400 and self.note(f"{got.status} {got.url}"))
        page.on("request", self._foreign)

    def note(self, words):
        self.wrong.append(words)

    def _failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # a question that was dropped for a newer one
            self.note(f"failed: {request.url} {request.failure}")

    def _foreign(self, request):
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in (
            "127.0.0.1",
            "localhost",
        ):
            self.note(f"foreign: {request.url}")

    def left(self):
        """What went wrong and was not expected."""
        return [each for each in self.wrong if not any(part in each for part in self.expected)]


def opened(browser, **options):
    """A page of its own context, watched."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.watch = Watch(page)
    return page


@pytest.fixture
def page(chromium):
    """A page that fails the test on anything said to the console, thrown, refused or asked of another host.

    ``page.watch.expected.append("422")`` names what a test brings about on purpose.
    """
    made = opened(chromium)
    yield made
    made.context.close()
    assert made.watch.left() == []
