"""Drives the plane on an open page: reads its state, and speaks in data coordinates."""

import json

PLANE = '[data-testid="plane"]'


class Plane:
    """The plane on an open page: reads its state and speaks in data coordinates."""

    def __init__(self, page, url):
        self.page = page
        page.goto(url)
        self.wait_drawn(0)

    @property
    def root(self):
        return self.page.locator(PLANE)

    def state(self, name):
        return json.loads(self.root.get_attribute(f"data-{name}"))

    @property
    def drawn(self):
        return int(self.root.get_attribute("data-drawn") or 0)

    @property
    def endpoints(self):
        return self.state("endpoints")

    def wait_drawn(self, after):
        self.page.wait_for_function(
            "([plane, after]) => Number(document.querySelector(plane)?.dataset.drawn ?? 0) > after",
            arg=[PLANE, after],
            timeout=60_000,  # a cold server on a busy machine
        )
        self.page.wait_for_selector(f"{PLANE}:not(.plane-pending)")

    def frame(self):
        """Plot area in page pixels and the ranges of the axes."""
        return self.page.evaluate(
            """() => {
                const node = document.querySelector(".plane-plot");
                const box = node.getBoundingClientRect();
                const {xaxis, yaxis} = node._fullLayout;
                return {left: box.left + xaxis._offset, top: box.top + yaxis._offset, width: xaxis._length,
                        height: yaxis._length, x: xaxis.range, y: yaxis.range};
            }"""
        )

    def pixel(self, x, y):
        f = self.frame()
        left = f["left"] + (x - f["x"][0]) / (f["x"][1] - f["x"][0]) * f["width"]
        top = f["top"] + (f["y"][1] - y) / (f["y"][1] - f["y"][0]) * f["height"]
        return left, top

    def click(self, x, y):
        before = self.drawn
        self.page.mouse.click(*self.pixel(x, y))
        self.wait_drawn(before)

    def drag(self, start, end):
        self.page.mouse.move(*self.pixel(*start))
        self.page.mouse.down()
        self.page.mouse.move(*self.pixel(*end), steps=6)

    def ink(self):
        """Number of painted pixels on the canvas of the points."""
        return self.page.evaluate(
            """() => {
                const canvas = document.querySelector(".plane-points");
                const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                return data.filter((value, k) => k % 4 === 3 && value > 0).length;
            }"""
        )

    def handle(self, letter):
        return self.page.locator(f'[data-handle="{letter}"]')

    def path(self, method):
        return self.page.locator(f'.plane-path[data-method="{method}"]')

    def marks(self, method):
        return self.page.locator(f'.plane-mark[data-method="{method}"]')

    def row(self, method):
        return self.page.locator(f'.plane-row[data-method="{method}"]')
