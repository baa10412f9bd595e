"""A headless chromium, asked over its debugging pipe: JSON ended by NUL bytes on two file descriptors, no network."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0


def chromium():
    """The browser's program, or the test is skipped."""
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip("there is no chromium to look at pages with")
    return found


class Browser:
    """One page; ``with Browser() as page: page.open(path, 400); page.js("...")``."""

    def __init__(self):
        self.program = chromium()

    def __enter__(self):
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        arguments = [self.program, *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", *arguments], pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number, self._session = b"", 0, None
        try:
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.ask("Page.enable")
            self.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        except (OSError, EOFError) as error:
            self.__exit__()
            pytest.skip(f"{self.program} does not start here: {error!r}")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._home.cleanup()

    def ask(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self):
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError(f"{self.program} says nothing")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise EOFError("it ended")
            self._buffer += part
        one, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(one)

    def open(self, path, width, height=900):
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Page.navigate", url=Path(path).resolve().as_uri())
        while self._read().get("method") != "Page.loadEventFired":
            pass

    def js(self, text):
        answer = self.ask("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def media(self, **features):
        self.ask(
            "Emulation.setEmulatedMedia", media=features.pop("media", ""),
            features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()],
        )  # fmt: skip

    def pdf(self):
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True)["data"])
