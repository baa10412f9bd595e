"""A draw over a small run, and a browser, for the tests of checks."""

import base64
import hashlib
import re
import shutil
import subprocess

import numpy as np
import pytest

from datamarket_gym.payout.checks.draw import Draw, DrawnChecks
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.what_if import finished_results


def draws_of(run, per_payee=3, seed=0, beacon="the wheel of 31 May"):
    """Draws over the units that stand for a cluster, some of each payee, at amounts made up."""
    _, results = finished_results(run, places_of(run))
    inputs, rng = results.inputs, np.random.default_rng(seed)
    stands = np.zeros(len(inputs.ids), dtype=bool)
    stands[results.payments.canonical.unit] = True
    payees = [inputs.identities[c] for c in results.payees.group]
    draws = []
    for payee in sorted(set(payees)):
        rows = [r for r in np.flatnonzero(stands) if payees[inputs.owner[r]] == payee]
        if not rows:
            continue
        worth = rng.exponential(3.0, len(rows))
        for at in dict.fromkeys(rng.choice(len(rows), per_payee, p=worth / worth.sum()).tolist()):
            row = int(rows[at])
            draws.append(
                Draw(
                    len(draws) + 1, payee, inputs.identities[inputs.owner[row]], inputs.ids[row], row,
                    float(worth[at]), float(worth[at] / worth.sum()),
                )
            )  # fmt: skip
    return DrawnChecks(read_manifest(run)["run"], beacon, per_payee, 0.8, draws)


def in_browser(page, script, profile, width=1100):
    """What a script, added to the page and allowed by its policy, leaves in the page; skips without chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium to open the page in")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = page.read_text(encoding="utf-8")
    html = html.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    html = html.replace("</body>", f"<script>{script}</script></body>")
    opened = page.with_name("opened.html")
    opened.write_text(html, encoding="utf-8")
    done = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
         "--virtual-time-budget=2000", f"--user-data-dir={profile}", "--dump-dom", opened.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.search(r'<pre id="left">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[:500]
    return found.group(1)
