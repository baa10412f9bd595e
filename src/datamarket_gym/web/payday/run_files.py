"""Files of a run for the browser: only those that runs write, as the run left them, and pages without any rights here.

A report is a page with scripts of its own. It is opened in a sandbox: it may run these, and has no origin, so that it
can neither read the explorer's answers nor send it anything as one of its pages; and they fetch nothing from elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fastapi import Response
from fastapi.responses import FileResponse

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import outputs_of, read_manifest, require_as_written
from datamarket_gym.payout.report.of_book import as_drafted
from datamarket_gym.payout.report.state import NAME as REPORT
from datamarket_gym.web.places import NotThere

SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATEMENT = re.compile(r"statements/[a-z0-9-]+-[0-9a-f]{16}\.html")
_KINDS = {
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
}


def run_file(folder: Path, name: str) -> Response:
    """One file of a run: pages are shown, everything else is saved under the names of run and file."""
    path = _confined(folder, name)
    kind = _KINDS.get(path.suffix, "application/octet-stream")
    if path.suffix == ".html":
        return Response(path.read_bytes(), media_type=kind, headers={"content-security-policy": SANDBOX})
    saved = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.name)}-{path.name}"
    return FileResponse(
        path, media_type=kind, filename=saved, headers={"content-security-policy": "sandbox"}
    )


def _confined(folder: Path, name: str) -> Path:
    """The path of a file that may be asked for; what the manifest names is believed only if runs write such files."""
    manifest = read_manifest(folder)
    outputs = manifest["outputs"]
    known = name in outputs_of(manifest.get("prior", ())) or name == MANIFEST
    if not known and _STATEMENT.fullmatch(name) is None:
        raise NotThere(
            f"{name[:100]!r} is no file of a run; ask for report.html, payments.csv or another of its outputs"
        )
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise NotThere(f"the run has no {name!r}; it may have been removed: run verify")
    if name == REPORT:
        if hashlib.sha256(as_drafted(folder)).hexdigest() != outputs.get(name, {}).get("sha256"):
            raise DataMarketError(
                "report.html is not as the run left it, and is not shown; verify the run to see what changed"
            )
    elif known and name != MANIFEST:
        require_as_written(folder, outputs, name)
    return path
