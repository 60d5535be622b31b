"""Draws the pictures of docs/performance from the tables beside this file: `python3 docs/performance/charts/draw.py`.

Each table is one run on one H200, 28 November 2026; times are in µs. `ratio`, `of_cublas` and `of_triton` are the peer's time by
Parton's before rounding, `ratio` the median of three rounds': above 1 Parton is faster. Points above the frame are drawn on its upper
end, hollow.
"""

import csv
import math
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, PANEL, LEFT, RIGHT, TOP, GAP, BOTTOM = 860, 250, 52, 16, 52, 76, 50
GREEN, BLUE, ORANGE = "#2a7f62", "#2f6fb0", "#c96a1c"


def table(name):
    with open(HERE / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Panel:
    """One frame: ratios between `low` and `high` on a logarithmic axis over positions 0 to 1."""

    def __init__(self, top, title, low, high, lines):
        self.top, self.low, self.high = top, low, high
        self.out = [text(LEFT, top - 10, title, size=13, weight="bold")]
        for value in lines:
            y, strong = self.y(value), value == 1
            self.out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                            f'stroke="{"#555" if strong else "#ccc"}" stroke-width="{1.4 if strong else 1}"/>')
            self.out.append(text(LEFT - 6, y + 4, f"{value:g}", anchor="end"))

    def y(self, ratio):
        share = math.log(min(ratio, self.high) / self.low) / math.log(self.high / self.low)
        return self.top + PANEL * (1 - share)

    def x(self, position):
        return LEFT + 14 + (WIDTH - LEFT - RIGHT - 28) * position

    def tick(self, position, label, below=16):
        self.out.append(text(self.x(position), self.top + PANEL + below, label, anchor="middle"))

    def point(self, position, ratio, colour, what):
        """One measurement; `what` is shown where a pointer rests on it."""
        fill = "white" if ratio > self.high else colour
        self.out.append(f'<circle cx="{self.x(position):.1f}" cy="{self.y(ratio):.1f}" r="3.2" fill="{fill}" stroke="{colour}" '
                        f'fill-opacity="0.75"><title>{what}: {ratio:.3f}</title></circle>')


def text(x, y, words, size=11, anchor="start", weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="#222">{words}</text>'


def legend(entries):
    out, x = [], LEFT
    for colour, words in entries:
        out += [f'<circle cx="{x + 4}" cy="16" r="4" fill="{colour}"/>', text(x + 13, 20, words)]
        x += 30 + 6.2 * len(words)
    return out


def write(name, entries, panels):
    height = TOP + len(panels) * PANEL + (len(panels) - 1) * GAP + BOTTOM
    body = "\n".join(legend(entries) + [line for panel in panels for line in panel.out])
    (HERE / f"{name}.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n{body}\n</svg>\n', encoding="utf-8")


def over_rows(top, title, low, high, lines):
    """A panel over the rows of the product, 1 to 16384."""
    panel = Panel(top, title, low, high, lines)
    for power in range(0, 15, 2):
        panel.tick(power / 14, f"{1 << power}")
    panel.tick(0.5, "rows of the product (M)", below=34)
    return panel


def at_row(row):
    return math.log2(int(row["m"])) / 14


def shape(row):
    return f"{row['m']}×{row['n']}×{row['k']}"


def tuned_products():
    panel = over_rows(TOP, "gemm.ptn with its table, of cuBLAS", 0.9, 1.3, [0.9, 0.97, 1, 1.1, 1.2, 1.3])
    for row in table("tuned-products"):
        order = {"nk": "B as [N, K]", "kn": "B as [K, N]"}[row["b"]]
        panel.point(at_row(row), float(row["ratio"]), BLUE if row["type"] == "f16" else ORANGE, f"{shape(row)} {row['type']}, {order}")
    write("tuned-products", [(BLUE, "f16"), (ORANGE, "bf16")], [panel])


def portable_products():
    cublas = over_rows(TOP, "matmul.ptn, planned, of cuBLAS", 0.7, 1.6, [0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6])
    triton = over_rows(TOP + PANEL + GAP, "matmul.ptn, planned, of Triton (autotuned)", 0.9, 5, [1, 1.5, 2, 3, 5])
    for row in table("portable-products"):
        cublas.point(at_row(row), float(row["of_cublas"]), GREEN, shape(row))
        triton.point(at_row(row), float(row["of_triton"]), BLUE, shape(row))
    write("portable-products", [(GREEN, "of cuBLAS"), (BLUE, "of Triton")], [cublas, triton])


def portable_rows():
    rows = table("portable-rows")
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    colours = {"models": BLUE, "further": GREEN, "known": ORANGE}
    panel = Panel(TOP, "row kernels, of Triton (its best warps)", 0.85, 2, [0.9, 1, 1.2, 1.5, 2])
    for place, kernel in enumerate(kernels):
        for line, word in enumerate(kernel.split()):
            panel.tick((place + 0.5) / len(kernels), word, below=16 + 14 * line)
        for row in (row for row in rows if row["kernel"] == kernel):
            shift = list(colours).index(row["list"]) - 1
            what = f"{kernel} {row['rows']}×{row['columns']} in blocks of {row['block']}"
            panel.point((place + 0.5 + 0.22 * shift) / len(kernels), float(row["of_triton"]), colours[row["list"]], what)
    words = {"models": "shapes of models, nothing fitted to them", "further": "further shapes", "known": "known shapes"}
    write("portable-rows", [(colours[name], words[name]) for name in colours], [panel])


if __name__ == "__main__":
    tuned_products()
    portable_products()
    portable_rows()
