"""Pages of a browser, and all that goes wrong on them."""

from urllib.parse import urlsplit

SOON = 60_000  # milliseconds: other tests may keep all cores busy


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


def new_context(browser, **options):
    """A browser that knows nothing yet."""
    return browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})


def opened(browser, **options):
    """A page of its own context, watched."""
    return watched(new_context(browser, **options))


def watched(context):
    """A page that is watched."""
    page = context.new_page()
    page.set_default_timeout(SOON)
    page.watch = Watch(page)
    return page
