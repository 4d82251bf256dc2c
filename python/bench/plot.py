# SPDX-License-Identifier: Apache-2.0
"""Times over sizes as a picture in SVG: a panel for each operation, a line for each backend. Needs nothing but Python."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence, Tuple

WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y, COLUMNS = 260, 190, 70, 96, 70, 70, 3
COLOURS = ("#c2410c", "#64748b", "#0f766e", "#7c3aed")
NAMES = {"gloo": "Gloo"}


def short(nbytes: int) -> str:
    """Bytes with K or M."""
    for unit, letter in ((1 << 20, " M"), (1 << 10, " K")):
        if nbytes >= unit:
            return f"{nbytes // unit}{letter}"
    return str(nbytes)


def _time(exponent: int) -> str:
    """10**exponent microseconds."""
    return f"{10**exponent} us" if exponent < 3 else f"{10 ** (exponent - 3)} ms" if exponent < 6 else f"{10 ** (exponent - 6)} s"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, more: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {more}/>'


def _panel(rows: List[Dict[str, Any]], backends: Sequence[str], corner: Tuple[float, float], decades: Tuple[int, int], sizes: List[int]) -> List[str]:
    """One operation; `corner` is the upper left end of its area."""
    left, top = corner
    low, high = decades
    across = lambda nbytes: left + WIDTH * (math.log2(nbytes / sizes[0]) / max(1.0, math.log2(sizes[-1] / sizes[0])))  # noqa: E731
    down = lambda us: top + HEIGHT * (high - math.log10(us)) / (high - low)  # noqa: E731
    best = max(row["ratio"] for row in rows)
    least = min(row["ratio"] for row in rows)
    out = [_text(left, top - 10, rows[0]["operation"], ' font-weight="bold"')]
    out.append(_text(left + WIDTH, top - 10, f"{least:.3g} to {best:.3g} times faster", ' text-anchor="end" fill="#555"'))
    for exponent in range(low, high + 1):
        y = down(10.0**exponent)
        out += [_line(left, y, left + WIDTH, y, 'stroke="#ddd"'), _text(left - 6, y + 4, _time(exponent), ' text-anchor="end"')]
    for nbytes in sizes:
        out.append(_line(across(nbytes), top, across(nbytes), top + HEIGHT, 'stroke="#eee"'))
        out.append(_text(across(nbytes), top + HEIGHT + 16, short(nbytes), ' text-anchor="middle"'))
    for backend, colour in zip(backends, COLOURS):
        points = [(across(row["bytes"]), down(row[backend])) for row in sorted(rows, key=lambda row: int(row["bytes"]))]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in points]
    return out


def panels(rows: List[Dict[str, Any]], backends: Sequence[str], title: str) -> str:
    """The picture. Rows have operation, bytes, ratio, and microseconds under each backend's name."""
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    times = [row[backend] for row in rows for backend in backends]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    decades = (low, max(high, low + 1))
    sizes = sorted({int(row["bytes"]) for row in rows})
    columns = min(COLUMNS, len(operations))
    lines = -(-len(operations) // columns)
    width, height = LEFT + columns * (WIDTH + GAP_X), TOP + lines * (HEIGHT + GAP_Y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">']
    out += ['<rect width="100%" height="100%" fill="white"/>', _text(LEFT, 28, title, ' font-size="14"')]
    for i, (backend, colour) in enumerate(zip(backends, COLOURS)):
        x = LEFT + 110 * i
        out += [_line(x, 48, x + 26, 48, f'stroke="{colour}" stroke-width="3"'), _text(x + 32, 52, NAMES.get(backend, backend), ' font-size="13"')]
    out.append(_text(LEFT + 110 * len(backends), 52, "time of a call over bytes", ' fill="#555"'))
    for i, operation in enumerate(operations):
        corner = (LEFT + i % columns * (WIDTH + GAP_X), TOP + i // columns * (HEIGHT + GAP_Y))
        out += _panel([row for row in rows if row["operation"] == operation], backends, corner, decades, sizes)
    return "\n".join([*out, "</svg>"]) + "\n"
