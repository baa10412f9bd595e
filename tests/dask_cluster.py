"""A dask scheduler and two workers, as separate processes that can be killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path


def why_not():
    """Why there can be no cluster here; nothing where there can."""
    return "" if find_spec("distributed") else "dask.distributed is not installed (extra dask)"


class DaskCluster:
    """Started once; `whole` brings dead workers back before each test."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.processes, self.workers = [], {}

    def start(self):
        self.scheduler = self._begin(
            "scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--scheduler-file", self.folder / "scheduler.json",
        )  # fmt: skip
        self._wait((self.folder / "scheduler.json").exists)
        self.address = json.loads((self.folder / "scheduler.json").read_text())["address"]
        self.whole()

    def whole(self):
        """Two workers, whatever was killed; their process ids."""
        names = [name for name in ("one", "two") if not self.alive(name)]
        for name in names:
            self.worker(name)
        for name in names:
            self.joined(name)
        return [self.workers[name].pid for name in ("one", "two")]

    def worker(self, name, threads=1, **environment):
        """Start a worker; it joins a few seconds later."""
        self.workers[name] = self._begin(
            name, "worker", self.address, "--nthreads", threads, "--no-nanny", "--no-dashboard", "--memory-limit", "0",
            "--host", "127.0.0.1", "--local-directory", self.folder / f"{name}.files", **environment,
        )  # fmt: skip

    def joined(self, name):
        """Wait until a worker has joined."""
        log = self.folder / f"{name}.log"
        self._wait(lambda: "Starting established connection" in log.read_text())

    def kill(self, *names):
        """SIGKILL."""
        for name in names:
            self.workers[name].send_signal(signal.SIGKILL)
            self.workers[name].wait()

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def alive(self, name):
        return name in self.workers and self.workers[name].poll() is None

    def _begin(self, name, *words, **environment):
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *(str(word) for word in words)],
                stdout=log, stderr=log, env={**os.environ, **environment}, cwd=self.folder,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def _wait(self, until):
        deadline = time.monotonic() + 60
        while not until():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
                raise TimeoutError(f"the cluster does not start:\n{logs}")
            time.sleep(0.05)


class Counted:
    """Progress that counts, and calls a function when so much is done."""

    def __init__(self, at=None, then=None):
        self.counts, self._at, self._then = [], at, then

    def stage(self, what, unit=""):
        pass

    def count(self, done, total):
        self.counts.append((done, total))
        if self._then is not None and done >= self._at:
            then, self._then = self._then, None
            then()
