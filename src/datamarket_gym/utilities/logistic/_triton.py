# mypy: ignore-errors
"""Triton kernels on CUDA: gradients with logits kept on chip, and one step of the descent.

`descent.gradient_by_masks` and `descent.advance_arrays` say what they compute; here each is one pass. In gradients
columns are (coalition, class) with classes padded to a power of two. With few features a program holds some coalitions'
parameters and walks over the rows of its game in blocks, skipping those that none of its coalitions has; with many,
cuBLAS does the two products and only the softmax between them is fused. The step takes one program a problem. Triton
compiles at first use (some seconds, cached on disk). Where it is missing plain torch serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from datamarket_gym.utilities.logistic.descent import Descent
    from datamarket_gym.utilities.logistic.layout import Slots, Stack


@triton.jit
def residual_kernel(
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
def on_chip_kernel(
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
def advance_kernel(
    point,
    slope_vector,
    scaled,
    direction,
    trial,
    steps,
    images,
    sy_all,
    yz_all,
    count_all,
    length_all,
    slope_all,
    decrement_all,
    gradient,
    image,
    live,
    n,
    MEMORY: tl.constexpr,
    UPHILL: tl.constexpr,
    SHORTEST: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """`descent.advance` of one problem: a pass for all products, numbers, a pass to combine."""
    slot = tl.program_id(0).to(tl.int64)
    m = tl.arange(0, MEMORY)
    here = slot * n
    past = slot * MEMORY * n
    count = tl.load(count_all + slot)
    length = tl.load(length_all + slot)
    slope = tl.load(slope_all + slot)

    zero = tl.zeros((MEMORY,), dtype=tl.float64)
    a, c, s_y, z_y = zero, zero, zero, zero  # s_i'g, z_i'g, s_i'y, z_i'y
    flat = tl.zeros((BLOCK,), dtype=tl.float64)
    end_, sy_, yz_, zg_, gu_ = flat, flat, flat, flat, flat
    for start in range(0, n, BLOCK):
        j = start + tl.arange(0, BLOCK)
        ok = j < n
        both = (m < MEMORY)[:, None] & ok[None, :]
        g = tl.load(gradient + here + j, mask=ok, other=0.0)
        u = tl.load(image + here + j, mask=ok, other=0.0)
        u = tl.where(tl.load(live + here + j, mask=ok, other=0) > 0, u, 0.0)
        p = tl.load(direction + here + j, mask=ok, other=0.0)
        y = g - tl.load(slope_vector + here + j, mask=ok, other=0.0)
        z = u - tl.load(scaled + here + j, mask=ok, other=0.0)
        end_ += g * p
        sy_ += p * y
        yz_ += y * z
        zg_ += z * g
        gu_ += g * u
        s_i = tl.load(steps + past + m[:, None] * n + j[None, :], mask=both, other=0.0)
        s_i = s_i.to(tl.float64)
        a += tl.sum(s_i * g[None, :], axis=1)
        s_y += tl.sum(s_i * y[None, :], axis=1)
        z_i = tl.load(images + past + m[:, None] * n + j[None, :], mask=both, other=0.0)
        z_i = z_i.to(tl.float64)
        c += tl.sum(z_i * g[None, :], axis=1)
        z_y += tl.sum(z_i * y[None, :], axis=1)
    end, yz, zg, gu = tl.sum(end_), tl.sum(yz_), tl.sum(zg_), tl.sum(gu_)
    sy = length * tl.sum(sy_)
    accept = end <= UPHILL * tl.abs(slope)

    if accept:
        keep = (sy > 0) & (yz > 0)
        spot = count % MEMORY
        new = tl.where(keep, m, -1) == spot
        a = tl.where(new, length * end, a)
        c = tl.where(new, zg, c)
        s_y = tl.where(new, sy, s_y)
        z_y = tl.where(new, yz, z_y)
        square = slot * MEMORY * MEMORY + m[:, None] * MEMORY + m[None, :]
        sy_all_ = tl.load(sy_all + square)
        yz_all_ = tl.load(yz_all + square)
        sy_all_ = tl.where(new[None, :], s_y[:, None], sy_all_)
        yz_all_ = tl.where(new[None, :], z_y[:, None], yz_all_)
        yz_all_ = tl.where(new[:, None], z_y[None, :], yz_all_)
        tl.store(sy_all + square, sy_all_)
        tl.store(yz_all + square, yz_all_)
        count = count + tl.where(keep, 1, 0)
        newest = count - 1
        on = m[:, None] == m[None, :]
        curvature = tl.sum(tl.where(on, sy_all_, 0.0), axis=1)
        own = tl.sum(tl.where(on, yz_all_, 0.0), axis=1)
        last = m == (newest + MEMORY) % MEMORY
        top = tl.sum(tl.where(last, curvature, 0.0), axis=0)
        bottom = tl.sum(tl.where(last, own, 0.0), axis=0)
        gamma = tl.where((newest >= 0) & (bottom > 0), top / bottom, 1.0)
        safe = tl.where(curvature > 0, curvature, 1.0)
        alpha, done = zero, zero
        for age in tl.static_range(MEMORY):
            this = (m == (newest - age + 2 * MEMORY) % MEMORY) & (newest >= age) & (curvature > 0)
            rest = a - tl.sum(sy_all_ * alpha[None, :], axis=1)
            alpha = tl.where(this, rest / safe, alpha)
        base = gamma * (c - tl.sum(yz_all_ * alpha[None, :], axis=1))
        for back in tl.static_range(MEMORY):
            age = MEMORY - 1 - back
            this = (m == (newest - age + 2 * MEMORY) % MEMORY) & (newest >= age) & (curvature > 0)
            beta = (base + tl.sum(sy_all_ * done[:, None], axis=0)) / safe
            done = tl.where(this, alpha - beta, done)
        decrement2 = tl.maximum(gu, 0.0)
        slope = -gamma * gu + gamma * tl.sum(alpha * c, axis=0) - tl.sum(done * a, axis=0)
        bad = (slope < 0) == 0
        gamma = tl.where(bad, 1.0, gamma)
        alpha = tl.where(bad, 0.0, alpha)
        done = tl.where(bad, 0.0, done)
        slope = tl.where(bad, -decrement2, slope)
        count = tl.where(bad, 0, count)
        alpha_new = tl.sum(tl.where(new, alpha, 0.0), axis=0)
        done_new = tl.sum(tl.where(new, done, 0.0), axis=0)
        alpha = tl.where(new, 0.0, alpha)
        done = tl.where(new, 0.0, done)
        for start in range(0, n, BLOCK):
            j = start + tl.arange(0, BLOCK)
            ok = j < n
            both = (m < MEMORY)[:, None] & ok[None, :]
            g = tl.load(gradient + here + j, mask=ok, other=0.0)
            u = tl.load(image + here + j, mask=ok, other=0.0)
            u = tl.where(tl.load(live + here + j, mask=ok, other=0) > 0, u, 0.0)
            s = length * tl.load(direction + here + j, mask=ok, other=0.0)
            z = u - tl.load(scaled + here + j, mask=ok, other=0.0)
            s_i = tl.load(steps + past + m[:, None] * n + j[None, :], mask=both, other=0.0)
            z_i = tl.load(images + past + m[:, None] * n + j[None, :], mask=both, other=0.0)
            p = tl.sum(z_i.to(tl.float64) * alpha[:, None], axis=0) + alpha_new * z - u
            p = gamma * p - tl.sum(s_i.to(tl.float64) * done[:, None], axis=0) - done_new * s
            x = tl.load(trial + here + j, mask=ok, other=0.0)
            tl.store(point + here + j, x, mask=ok)
            tl.store(trial + here + j, x + p, mask=ok)
            tl.store(slope_vector + here + j, g, mask=ok)
            tl.store(scaled + here + j, u, mask=ok)
            tl.store(direction + here + j, p, mask=ok)
            write = tl.where(keep, j, n) < n
            tl.store(steps + past + spot * n + j, s, mask=write)
            tl.store(images + past + spot * n + j, z, mask=write)
        tl.store(count_all + slot, count)
        tl.store(length_all + slot, 1.0)
        tl.store(slope_all + slot, slope)
        tl.store(decrement_all + slot, tl.sqrt(decrement2))
    else:
        shrink = tl.minimum(tl.maximum(slope / (slope - end), SHORTEST), LONGEST)
        shrink = tl.where(shrink == shrink, shrink, SHORTEST)
        length = length * shrink
        for start in range(0, n, BLOCK):
            j = start + tl.arange(0, BLOCK)
            ok = j < n
            x = tl.load(point + here + j, mask=ok, other=0.0)
            p = tl.load(direction + here + j, mask=ok, other=0.0)
            tl.store(trial + here + j, x + length * p, mask=ok)
        tl.store(length_all + slot, length)


FEW = 64  # features and intercept up to which logits stay on chip
TILE = (16, 32, 1)  # columns (coalitions x classes), rows and warps of a program on chip;
# fewer than one warp per 32 features spills registers
WARPS = 1  # of a program that takes a step with few parameters
MANY_CLASSES = 8  # beyond, tiles no longer fit


def gradient(weights: torch.Tensor, stack: Stack, slots: Slots) -> torch.Tensor:
    """See `descent.loss_gradient`."""
    games, size, classes, width = weights.shape
    n = stack.x.shape[1]
    if not on_chip(stack):
        from datamarket_gym.utilities.logistic.descent import logits

        score = logits(weights, stack.x)
        padded = triton.next_power_of_2(classes)
        block = min(2048 // padded, triton.next_power_of_2(n))
        shape = {"CLASSES": classes, "PADDED": padded, "BLOCK": block}
        residual_kernel[(games * size, triton.cdiv(n, block))](
            score, slots.rows, slots.absent, stack.label, stack.weight, size, n, **shape, num_warps=4
        )
        out = torch.bmm(score.view(games, size * classes, n), stack.x).view_as(weights)
        return out.addcmul_(slots.penalty[:, :, None], weights).mul_(slots.live)
    weights, out = weights.contiguous(), torch.empty_like(weights)
    padded = triton.next_power_of_2(max(classes, 2))
    columns, rows, warps = TILE
    together = max(1, columns // padded)
    shape = {"WIDTH": width, "WIDTH_PADDED": max(16, triton.next_power_of_2(width))}
    shape |= {"CLASSES": classes, "PADDED": padded, "TOGETHER": together, "ROWS": rows}
    inputs = stack.x, stack.label, stack.weight, slots.bits, slots.absent, slots.penalty, slots.live
    on_chip_kernel[(triton.cdiv(size, together), games)](
        weights,
        out,
        *inputs,
        size,
        n,
        slots.bits.shape[2],
        **shape,
        num_warps=warps if width <= 32 else 4 * warps,
    )
    return out


def on_chip(stack: Stack) -> bool:
    """Return whether logits of the stack's games can stay on chip."""
    return stack.width <= FEW and stack.n_classes <= MANY_CLASSES


def advance(state: Descent, gradient: torch.Tensor, scaled: torch.Tensor, live: torch.Tensor) -> None:
    from datamarket_gym.utilities.logistic.descent import LONGEST, SHORTEST, UPHILL

    games, size, n = state.point.shape
    block = min(512, triton.next_power_of_2(n))
    # the kernel's first arguments are the fields of the state, in their order
    advance_kernel[(games * size,)](
        *vars(state).values(),
        gradient,
        scaled,
        live,
        n,
        MEMORY=state.steps.shape[2],
        UPHILL=UPHILL,
        SHORTEST=SHORTEST,
        LONGEST=LONGEST,
        BLOCK=block,
        num_warps=WARPS if block <= 128 else 4,
    )
