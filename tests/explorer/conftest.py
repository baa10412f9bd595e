"""A real server and a real browser for the explorer's pages."""

import contextlib
import functools
import shutil
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the extra explorer is not installed")
pytest.importorskip("uvicorn", reason="the extra explorer is not installed")

from starlette.testclient import TestClient
from watched_pages import new_context, watched

from datamarket_gym.explorer.server import ServerOptions, serving
from datamarket_gym.explorer.workers import Setup

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
OWN = {"x-datamarket": "explorer"}
WARM = Setup(ahead=("datamarket_gym.explorer.server.static_folder",))


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
            thread.join(timeout=60)
            assert not thread.is_alive(), "the server did not stop"


@pytest.fixture(scope="session")
def explorers():
    """Starts explorers, each once for what it is asked to show, and ends them with the session.

    Questions are answered in this process unless ``workers`` says otherwise: a process more takes seconds to begin.
    """
    with contextlib.ExitStack() as stack:
        known = {}

        def start(*paths, workers=0, **options):
            named = tuple(map(str, paths))
            key = (named, workers, tuple(sorted(options.items())))
            if key not in known:
                setup = WARM if workers else Setup()
                asked = ServerOptions(named=named, port=0, workers=workers, setup=setup, **options)
                known[key] = stack.enter_context(running(asked))
            return known[key]

        yield start


@pytest.fixture
def served(explorers):
    """``served(path, ..., workers=0)``: the address of an explorer that shows these, without the last slash."""
    return lambda *paths, **options: explorers(*paths, **options).url.rstrip("/")


@contextlib.contextmanager
def asking():
    """Makes clients of explorers that compute in this process, with the headers of their own pages."""
    with contextlib.ExitStack() as stack:

        def start(*paths, **options):
            asked = ServerOptions(named=tuple(map(str, paths)), port=0, workers=0, **options)
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


@pytest.fixture
def client():
    """``client(path, ...)``: asks an explorer of this test alone."""
    with asking() as start:
        yield start


@pytest.fixture(scope="session")
def lasting_client():
    """``lasting_client(path, ...)``: asks an explorer that all tests share, for what changes nothing there."""
    with asking() as start:
        yield functools.cache(start)


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


@pytest.fixture(scope="session")
def context(chromium):
    """What a browser keeps between two pages: scripts that it has compiled already."""
    made = new_context(chromium)
    yield made
    made.close()


@pytest.fixture
def page(context):
    """A page that fails the test on anything said to the console, thrown, refused or asked of another host.

    ``page.watch.expected.append("422")`` names what a test brings about on purpose.
    """
    made = watched(context)
    yield made
    made.evaluate("() => { try { localStorage.clear() } catch { /* it has none */ } }")
    for each in context.pages:
        each.close()
    assert made.watch.left() == []
