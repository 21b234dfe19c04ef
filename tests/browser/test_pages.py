"""The pages of the paper's experiments in a real browser: figures, live cells, and the way to the explorer and back."""

import pytest
from driver import Plane

from core.experiments import running

pytestmark = pytest.mark.browser
APP = "dashboard/app.py"
# Page -> experiments whose question or table it shows.
PAGES = {
    "convergence": ("convergence", "edge_weights", "methods_on_200_points"),
    "dimensions": ("dimensions", "alpha_scaling"),
    "estimators": ("kde_tradeoff", "flow_scores"),
    "digits": ("digits",),
    "parameterization": ("parameterization",),
}


@pytest.fixture
def visit(new_page, serve):
    """A function that opens a page by its name, and waits until its script has ended."""

    def open_page(name, **options):
        page = new_page(**options)
        page.goto(f"{serve(APP)}/{name}")
        settled(page)
        return page

    return open_page


def settled(page):
    page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning'] h3", timeout=120_000)
    page.wait_for_function(
        """() => { const figures = [...document.querySelectorAll('.plane-figure')];
                   return figures.length > 0 && figures.every(node => Number(node.dataset.drawn) > 0); }""",
        timeout=60_000,
    )


def healthy(page):
    assert page.locator('[data-testid="stException"]').count() == 0
    assert "Traceback" not in page.locator("body").inner_text()
    assert "could not be drawn" not in page.locator("body").inner_text()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(visit, name):
    """With every figure drawn, in light and dark, and no wider than the window, on a phone too."""
    page = visit(name)
    healthy(page)
    text = page.locator("body").inner_text()
    assert "What the paper says, and what we found" in text
    assert "Try it" in text
    for experiment in PAGES[name]:
        if (running.RESULTS / f"{experiment}.csv").exists():
            assert f"run {experiment}" in text  # the command that made the table
        else:
            assert f"There is no {experiment}.csv" in text
    for node in page.locator(".plane-figure").all():
        node.locator(".trace, .hm").first.wait_for(state="attached")  # lines or a heatmap are drawn
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 800})
    settled(page)
    page.wait_for_function("() => document.scrollingElement.scrollWidth <= 390")
    healthy(page)


def test_a_cell_is_computed_again_and_cancelled(visit):
    page = visit("parameterization")
    page.get_by_role("button", name="Compute it here").click()
    page.get_by_role("progressbar").wait_for(timeout=30_000)
    page.get_by_text("Computed here in").wait_for(timeout=120_000)
    page.get_by_test_id("stDataFrame").wait_for()
    page.get_by_role("button", name="Compute it again").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for(timeout=10_000)
    healthy(page)


def test_the_explorer_keeps_its_choices_while_one_looks_elsewhere(new_page, serve):
    query = "dataset=circle&beta=2&methods=truth,power&start=0.1,1.0"
    plane = Plane(new_page(), f"{serve(APP)}/?{query}")
    endpoints = plane.endpoints
    plane.page.get_by_role("link", name="Parameterization").click()
    plane.page.get_by_role("heading", name="Parameterization").wait_for()
    settled(plane.page)
    plane.page.get_by_role("link", name="Explorer").click()
    plane.wait_drawn(0)
    assert plane.endpoints == endpoints
    assert {row["method"] for row in plane.state("reports")} == {"truth", "power"}
    plane.page.wait_for_function("() => location.search.includes('dataset=circle')")
    assert "beta=2" in plane.page.url


def test_something_to_try_opens_in_the_explorer(visit):
    page = visit("parameterization")
    page.get_by_role("button", name="Open it in the explorer").click()
    page.wait_for_selector('[data-testid="plane"][data-drawn]', timeout=60_000)
    page.wait_for_function("() => location.search.includes('T=20')")
    text = page.locator("body").inner_text()
    assert "two spirals" in text
    assert "β = 2" in text
    healthy(page)
