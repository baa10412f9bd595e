"""How often watermarks are read after changes, and in content that bears none: the table of docs/watermarks.md.

python benchmarks/watermark_rates.py [--units 100] [--unmarked 2000] [--page docs/watermarks.md]
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datamarket_gym.evidence import mark_image, mark_in_image, mark_text, marks_in_text
from datamarket_gym.world.attacks import augment, paraphrase
from datamarket_gym.world.data import load_corpus

KEY = b"a secret of the benchmark"
Change = Callable[[Any, np.random.Generator], Any]


def resized(image: bytes, share: float) -> bytes:
    """The image at another size."""
    opened, out = Image.open(io.BytesIO(image)), io.BytesIO()
    opened.resize((round(opened.width * share), round(opened.height * share))).save(out, "PNG")
    return out.getvalue()


def reworded(how: str, strength: int) -> Change:
    """A text rule of the attacks."""
    return lambda text, rng: paraphrase.RULES[how](text, [text], strength, rng)


def augmented(how: str, strength: int) -> Change:
    """An image rule of the attacks."""
    return lambda image, rng: augment.augmented(image, how, strength, rng)


TEXT: dict[str, Change] = {
    "unchanged": lambda text, rng: text,
    "runs of spaces collapsed": lambda text, rng: " ".join(text.split()),
    "first half of the words": lambda text, rng: " ".join(text.split()[: len(text.split()) // 2]),
    "characters of no width stripped": lambda text, rng: re.sub("[\u200b\u200c\u200d\u2060]", "", text),
    **{f"{how}, strength 3": reworded(how, 3) for how in paraphrase.RULES},
}
IMAGE: dict[str, Change] = {
    "unchanged": lambda image, rng: image,
    "three quarters of the size": lambda image, rng: resized(image, 0.75),
    "half the size": lambda image, rng: resized(image, 0.5),
    **{f"{how}, strength {s}": augmented(how, s) for how in augment.RULES for s in (1, 2)},
}


def rates(domain: str, units: int, unmarked: int) -> tuple[list[str], dict[str, float]]:
    """What was measured of a domain besides, and the share of marks read by change."""
    corpus = load_corpus(domain)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(corpus))[: units + unmarked]
    content = corpus.content[rows].tolist()
    if corpus.kind == "text":
        changes, most = TEXT, 1 << 16
        mark, read = mark_text, lambda text: marks_in_text(text, KEY)
    else:
        changes, most = IMAGE, 1024
        mark, read = mark_image, lambda image: {mark_in_image(image, KEY)} - {None}
    false = sum(bool(read(item)) for item in content[units:])
    notes = [f"{domain}: a mark read in {false} of {len(content) - units} unmarked {corpus.kind}s"]
    numbers = rng.integers(0, most, size=units).tolist()
    marked = [mark(item, KEY, number) for item, number in zip(content[:units], numbers, strict=True)]
    if corpus.kind == "image":
        noise = [_psnr(a, b) for a, b in zip(content[:units], marked, strict=True)]
        notes.append(f"mean PSNR {np.mean(noise):.1f} dB, lowest {min(noise):.1f} dB")
    found = {}
    for name, change in changes.items():
        hits = [n in read(change(item, rng)) for item, n in zip(marked, numbers, strict=True)]
        found[name] = float(np.mean(hits))
    return notes, found


def _psnr(before: bytes, after: bytes) -> float:
    a, b = (np.asarray(Image.open(io.BytesIO(i)).convert("RGB"), dtype=float) for i in (before, after))
    return float(10 * np.log10(255**2 / max(((a - b) ** 2).mean(), 1e-9)))


def table(domains: list[str], units: int, unmarked: int) -> str:
    """Markdown: what was measured besides, then a row per change."""
    measured = {domain: rates(domain, units, unmarked) for domain in domains}
    lines = [f"- {'; '.join(notes)}" for notes, _ in measured.values()]
    lines += [
        "",
        f"| share of {units} marks read | {' | '.join(domains)} |",
        "|---|" + "--:|" * len(domains),
    ]
    for name in next(iter(measured.values()))[1]:
        lines.append(
            f"| {name} | " + " | ".join(f"{found[name]:.2f}" for _, found in measured.values()) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the tables, or put them into the page between its marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--unmarked", type=int, default=2000)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    texts = table(["agnews", "imdb"], given.units, given.unmarked)
    images = table(["cifar10", "stl10"], given.units, given.unmarked)
    made = f"<!-- rates -->\n{texts}\n\n{images}\n<!-- /rates -->"
    if given.page is None:
        print(made)
        return
    page = given.page.read_text(encoding="utf-8")
    given.page.write_text(
        re.sub("<!-- rates -->.*<!-- /rates -->", lambda _: made, page, flags=re.DOTALL),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
