# mypy: ignore-errors
"""Triton: gradients and edge sums with logits on chip, and the softmax between two products.

Columns are (coalition, class) with classes padded to a power of two; a program walks over the rows
of its game in blocks and skips blocks that none of its coalitions has.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def residual(
    score,
    rows,
    absent,
    label,
    weight,
    size,
    n,
    CLASSES: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Logits to residuals C w (softmax - one hot), in place, one coalition and block of rows."""
    slot = tl.program_id(0).to(tl.int64)
    game = slot // size
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, PADDED)
    inside = row < n
    here = score + slot * CLASSES * n + k[:, None] * n + row[None, :]
    cell = (k < CLASSES)[:, None] & inside[None, :]
    shift = tl.load(absent + slot * CLASSES + k, mask=k < CLASSES, other=float("-inf"))
    z = tl.load(here, mask=cell, other=0.0) + shift[:, None]
    p = tl.exp(z - tl.max(z, axis=0)[None, :])
    p = p / tl.sum(p, axis=0)[None, :]
    mine = tl.load(label + game * n + row, mask=inside, other=0)
    w = tl.load(weight + game * n + row, mask=inside, other=0.0)
    w = w * tl.load(rows + slot * n + row, mask=inside, other=0).to(tl.float64)
    hot = tl.where(k[:, None] == mine[None, :], 1.0, 0.0)
    tl.store(here, (p - hot) * w[None, :], mask=cell)


@triton.jit
def finish(out, weights, penalty, live, n, width, BLOCK: tl.constexpr):
    """Add the penalty's gradient and blank what is not free, in place."""
    slot = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ok = j < n
    at = slot * n + j
    ridge = tl.load(penalty + slot * width + j % width, mask=ok, other=0.0)
    free = tl.load(live + at, mask=ok, other=0).to(tl.float64)
    w = tl.load(weights + at, mask=ok, other=0.0)
    tl.store(out + at, (tl.load(out + at, mask=ok, other=0.0) + ridge * w) * free, mask=ok)


@triton.jit
def on_chip(
    weights,
    out,
    x,
    label,
    weight,
    bits,
    absent,
    penalty,
    live,
    size,
    n,
    words,
    WIDTH: tl.constexpr,
    WIDTH_PADDED: tl.constexpr,
    CLASSES: tl.constexpr,
    PADDED: tl.constexpr,
    TOGETHER: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Gradient of TOGETHER coalitions of one game; columns are (coalition, class).

    All loads in the loop are 64 bits wide: Triton's float64 tensor-core path demands it.
    """
    COLUMNS: tl.constexpr = TOGETHER * PADDED
    game = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    place = tl.program_id(0) * TOGETHER + column // PADDED
    k = column % PADDED
    slot = game * size + place
    real = (place < size) & (k < CLASSES)
    j = tl.arange(0, WIDTH_PADDED)
    at = (slot * CLASSES + k)[:, None] * WIDTH + j[None, :]
    cell = real[:, None] & (j < WIDTH)[None, :]
    w = tl.load(weights + at, mask=cell, other=0.0)  # (COLUMNS, WIDTH_PADDED)
    # A place without a coalition gets one finite logit, so that no NaN arises.
    shift = tl.load(absent + slot * CLASSES + k, mask=real, other=float("-inf"))
    shift = tl.where((place >= size) & (k == 0), 0.0, shift)
    together = tl.program_id(0) * TOGETHER + tl.arange(0, TOGETHER)
    kk = tl.arange(0, PADDED)
    total = tl.zeros((COLUMNS, WIDTH_PADDED), dtype=tl.float64)
    for start in range(0, n, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = row < n
        word = tl.load(
            bits + (game * size + together) * words + start // 64, mask=together < size, other=0
        )
        mask = (word[None, :] >> (row % 64).to(tl.int64)[:, None]) & 1  # (ROWS, TOGETHER)
        if tl.max(tl.max(mask, axis=1), axis=0) > 0:
            block = tl.load(
                x + (game * n + row)[:, None] * WIDTH + j[None, :],
                mask=inside[:, None] & (j < WIDTH)[None, :],
                other=0.0,
            )
            z = tl.dot(block, tl.trans(w), out_dtype=tl.float64) + shift[None, :]
            z = tl.reshape(z, (ROWS, TOGETHER, PADDED))
            p = tl.exp(z - tl.max(z, axis=2)[:, :, None])
            p = p / tl.sum(p, axis=2)[:, :, None]
            mine = tl.load(label + game * n + row, mask=inside, other=0)
            hot = tl.where(kk[None, None, :] == mine[:, None, None], 1.0, 0.0)
            scale = tl.load(weight + game * n + row, mask=inside, other=0.0)
            scale = scale[:, None] * mask.to(tl.float64)
            r = tl.reshape((p - hot) * scale[:, :, None], (ROWS, COLUMNS))
            total += tl.dot(tl.trans(r), block, out_dtype=tl.float64)
    ridge = tl.load(penalty + slot[:, None] * WIDTH + j[None, :], mask=cell, other=0.0)
    free = tl.load(live + at, mask=cell, other=0).to(tl.float64)
    tl.store(out + at, (total + ridge * w) * free, mask=cell)


@triton.jit
def edges(
    weights,
    out,
    x,
    weight,
    bits,
    absent,
    size,
    n,
    words,
    WIDTH: tl.constexpr,
    WIDTH_PADDED: tl.constexpr,
    CLASSES: tl.constexpr,
    PADDED: tl.constexpr,
    TOGETHER: tl.constexpr,
    ROWS: tl.constexpr,
):
    """`edge_sums` of TOGETHER coalitions; the same walk over the rows as in `on_chip`."""
    COLUMNS: tl.constexpr = TOGETHER * PADDED
    PAIRS: tl.constexpr = COLUMNS * PADDED
    game = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    place = tl.program_id(0) * TOGETHER + column // PADDED
    k = column % PADDED
    slot = game * size + place
    real = (place < size) & (k < CLASSES)
    j = tl.arange(0, WIDTH_PADDED)
    at = (slot * CLASSES + k)[:, None] * WIDTH + j[None, :]
    w = tl.load(weights + at, mask=real[:, None] & (j < WIDTH)[None, :], other=0.0)
    shift = tl.load(absent + slot * CLASSES + k, mask=real, other=float("-inf"))
    shift = tl.where((place >= size) & (k == 0), 0.0, shift)
    together = tl.program_id(0) * TOGETHER + tl.arange(0, TOGETHER)
    total = tl.zeros((PAIRS, WIDTH_PADDED), dtype=tl.float64)
    for start in range(0, n, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = row < n
        word = tl.load(
            bits + (game * size + together) * words + start // 64, mask=together < size, other=0
        )
        mask = (word[None, :] >> (row % 64).to(tl.int64)[:, None]) & 1
        if tl.max(tl.max(mask, axis=1), axis=0) > 0:
            block = tl.load(
                x + (game * n + row)[:, None] * WIDTH + j[None, :],
                mask=inside[:, None] & (j < WIDTH)[None, :],
                other=0.0,
            )
            z = tl.dot(block, tl.trans(w), out_dtype=tl.float64) + shift[None, :]
            z = tl.reshape(z, (ROWS, TOGETHER, PADDED))
            p = tl.exp(z - tl.max(z, axis=2)[:, :, None])
            p = p / tl.sum(p, axis=2)[:, :, None]
            scale = tl.load(weight + game * n + row, mask=inside, other=0.0)
            scale = scale[:, None] * mask.to(tl.float64)
            edge = p[:, :, :, None] * (p * scale[:, :, None])[:, :, None, :]
            r = tl.reshape(edge, (ROWS, PAIRS))
            total += tl.dot(tl.trans(r), block, out_dtype=tl.float64)
    pair = tl.arange(0, PAIRS)
    place = tl.program_id(0) * TOGETHER + pair // (PADDED * PADDED)
    first = (pair // PADDED) % PADDED
    second = pair % PADDED
    real = (place < size) & (first < CLASSES) & (second < CLASSES)
    at = ((game * size + place) * CLASSES + first) * CLASSES + second
    cell = real[:, None] & (j < WIDTH)[None, :]
    tl.store(out + at[:, None] * WIDTH + j[None, :], total, mask=cell)
