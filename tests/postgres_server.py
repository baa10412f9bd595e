"""A PostgreSQL server of the tests' own, started from Debian's packages and thrown away afterwards.

One server for each process of pytest that asks for one (a second or two), a fresh database for each test.
It writes through to the disk (fsync is on), listens on loopback and on a socket inside its own folder,
wants a password, and goes when the process that started it does.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

USER = "market"
ACCOUNT = "postgres"  # what Debian's packages call the user that runs a server; root may not


def why_not():
    """Why no server can be started here, or None."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    if binaries() is None:
        places = "/usr/lib/postgresql/*/bin or on the PATH"
        return f"no PostgreSQL server in {places} (Debian: apt-get install postgresql)"
    if shutil.which("setpriv") is None:
        return "setpriv is not on the PATH (Debian: apt-get install util-linux)"
    if os.geteuid() == 0 and not known_account():
        return f"a server does not run as root, and there is no user called {ACCOUNT}"
    return None


def known_account():
    return re.search(rf"^{ACCOUNT}:", Path("/etc/passwd").read_text(), re.MULTILINE) is not None


def binaries():
    """The folder of initdb and postgres: the newest of Debian's, else that of the PATH; None if there is none."""
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name), reverse=True
    )
    on_path = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    for folder in [*debian, *on_path]:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    return None


class PostgresServer:
    """A server in a temporary folder. `database()` makes a fresh database and gives its URL."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="datamarket-postgres-"))
        self.password = secrets.token_hex(8)
        self.port = 0
        self.process = None
        self.made = 0
        secret = self.folder / "password"
        secret.write_text(self.password)
        if os.geteuid() == 0:
            for path in (self.folder, secret):
                shutil.chown(path, ACCOUNT, ACCOUNT)
        # --no-sync saves seconds: what initdb writes may be lost. The server itself syncs.
        kind = [
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "--auth=scram-sha-256",
            f"--username={USER}",
        ]
        made = subprocess.run(
            self.as_account("initdb", *kind, f"--pwfile={secret}", self.data),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )
        if made.returncode:
            shutil.rmtree(self.folder)
            raise RuntimeError(f"initdb failed: {made.stdout}{made.stderr}")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write("listen_addresses = '127.0.0.1'\nfsync = on\nshared_buffers = '32MB'\n")
            settings.write(f"unix_socket_directories = '{self.folder}'\n")

    @property
    def data(self):
        return self.folder / "data"

    @property
    def environment(self):
        return {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}

    def as_account(self, program, *arguments):
        """The command line that runs one of PostgreSQL's programs as a user who may, and ends it with this process."""
        account = (
            [f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups"] if os.geteuid() == 0 else []
        )
        return ["setpriv", "--pdeathsig=QUIT", *account, binaries() / program, *map(str, arguments)]

    def start(self):
        """Start it, on a port that is free, or on the one it had; wait until it answers."""
        for attempt in range(6):  # somebody else may take the port between looking and listening
            port = self.port or free_port()
            log = (self.folder / "log").open("ab")
            self.process = subprocess.Popen(
                self.as_account("postgres", "-D", self.data, "-p", port),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
            )
            log.close()
            connection = self.connect(port)
            if connection is not None:
                connection.close()
                self.port = port
                return
            self.end()
            time.sleep(
                2**attempt / 4
            )  # after kill(): until the dead server's children let go of its memory
        raise RuntimeError(f"the server did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def connect(self, port=None):
        """A connection, as soon as the server accepts one; None if it ended, or does not within three minutes."""
        import psycopg

        until = time.monotonic() + 180
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(psycopg.OperationalError):
                return psycopg.connect(self.url("postgres", port), autocommit=True, connect_timeout=20)
            time.sleep(0.05)
        return None

    def url(self, database, port=None):
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{port or self.port}/{database}"

    def database(self):
        """The URL of a database that nobody has used."""
        self.made += 1
        name = f"market_{self.made}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def kill(self):
        """End it as a power cut would: no word to its clients, nothing written any more."""
        # setpriv became the server itself (exec), so this process is the server's first one.
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(
                signal.SIGQUIT
            )  # "immediate": nothing is written that is thrown away next
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.kill()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
