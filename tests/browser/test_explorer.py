"""The explorer in a real browser: what a person does with it, and what it must never show."""

import json

import pytest
from driver import Plane

pytestmark = pytest.mark.browser
APP = "dashboard/app.py"
QUICK = "methods=truth,power,mixture,straight"  # no torch: most tests need not wait for it


@pytest.fixture
def opened(new_page, serve):
    """A function that opens the explorer with a query."""

    def open_with(query: str = QUICK, **options) -> Plane:
        return Plane(new_page(**options), f"{serve(APP)}/?{query}")

    return open_with


def healthy(plane):
    assert plane.page.locator('[data-testid="stException"]').count() == 0
    reports = plane.state("reports")
    assert all(row["lpr"] is None or row["lpr"] >= -1e-5 for row in reports)
    return {row["method"]: row for row in reports}


def wait_reports(plane, test):
    """Wait until the reports fulfill a JavaScript test."""
    plane.page.wait_for_function(
        f"""() => {{ const text = document.querySelector('[data-testid="plane"]')?.dataset.reports;
                     return text && (({test})(JSON.parse(text))); }}""",
        timeout=120_000,
    )


def test_first_picture_and_the_learned_paths_join(opened):
    plane = opened("")
    wait_reports(plane, "rows => rows.length === 5 && rows.every(row => row.status !== 'LOADING')")
    rows = healthy(plane)
    assert set(rows) == {"truth", "score", "mixture", "flow", "power"}
    assert rows["truth"]["lpr"] == pytest.approx(0, abs=1e-9)
    assert rows["score"]["lpr"] < rows["flow"]["lpr"] < rows["power"]["lpr"]
    for method in rows:
        assert plane.path(method).count() == 1


def test_click_moves_the_endpoint_and_the_address(opened):
    plane = opened(f"dataset=circle&{QUICK}")
    plane.click(0.0, 1.0)
    assert plane.endpoints[0] == pytest.approx([0.0, 1.0], abs=0.02)
    x, y = plane.endpoints[0]
    plane.page.wait_for_function("() => location.search.includes('start=')")
    assert healthy(plane)["truth"]["lpr"] == pytest.approx(0, abs=1e-9)
    again = opened(plane.page.url.split("?")[1])
    assert again.endpoints[0] == pytest.approx([x, y], abs=1e-5)
    assert again.state("reports")[0]["log_length"] == pytest.approx(plane.state("reports")[0]["log_length"], abs=1e-3)


def test_drag(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    before = plane.drawn
    plane.drag(plane.endpoints[1], (0.5, -1.0))
    plane.page.mouse.up()
    plane.wait_drawn(before)
    assert plane.endpoints[1] == pytest.approx([0.5, -1.0], abs=0.05)
    healthy(plane)


def test_keyboard(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    before, start = plane.drawn, plane.endpoints[0]
    plane.handle("A").focus()
    plane.page.keyboard.press("ArrowRight")
    plane.wait_drawn(before)
    assert plane.endpoints[0][0] > start[0]
    assert plane.endpoints[0][1] == pytest.approx(start[1])


def test_zoom_is_kept_over_a_click_and_a_new_beta(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    plane.page.mouse.move(*plane.pixel(0, 0))
    plane.page.mouse.wheel(0, -400)
    plane.page.wait_for_timeout(300)
    zoomed = plane.frame()["x"]
    plane.click(0.2, 0.1)
    assert plane.frame()["x"] == pytest.approx(zoomed)
    before = plane.drawn
    plane.page.get_by_role("slider").nth(1).press("ArrowRight")
    plane.wait_drawn(before)
    assert plane.frame()["x"] == pytest.approx(zoomed)


def test_dataset_switch(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    before = plane.drawn
    plane.page.get_by_test_id("stSelectbox").locator("input").click()
    plane.page.get_by_role("option", name="Gaussian mixture").click()
    plane.wait_drawn(before)
    assert "dataset=gaussian_mixture" in plane.page.url
    assert plane.endpoints == [[0.9, 0.4], [7.9, 0.4]]
    healthy(plane)


def test_back_button_returns_to_the_last_picture(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    before, first = plane.drawn, plane.endpoints
    plane.page.get_by_role("button", name="Swap").click()
    plane.wait_drawn(before)
    assert plane.endpoints == first[::-1]
    before = plane.drawn
    plane.page.go_back()
    plane.wait_drawn(before)
    assert plane.endpoints == first


# What the server says reaches the page 400 ms late, as on a slow connection.
SLOW_CONNECTION = """
    const Fast = window.WebSocket;
    window.WebSocket = class extends Fast {
        set onmessage(hear) { super.onmessage = (event) => setTimeout(() => hear(event), 400); }
        addEventListener(kind, hear, options) {
            const late = kind === "message" ? (event) => setTimeout(() => hear(event), 400) : hear;
            super.addEventListener(kind, late, options);
        }
    };
"""


def test_two_quick_choices_on_a_slow_connection_both_count(new_page, serve):
    page = new_page()
    page.add_init_script(SLOW_CONNECTION)
    plane = Plane(page, f"{serve(APP)}/?dataset=standard_normal&{QUICK}")
    page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning']")
    before = plane.endpoints
    page.get_by_role("button", name="Swap").click()
    page.wait_for_timeout(150)  # the page has not heard of the first choice yet
    page.get_by_role("slider").nth(1).press("ArrowRight")
    page.get_by_text("β = 1.4").first.wait_for()
    page.wait_for_function("() => location.search.includes('beta=1.4') && location.search.includes('start=')")
    page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning']")
    assert plane.endpoints == before[::-1]


def test_preset(opened):
    plane = opened(QUICK)
    before = plane.drawn
    plane.page.get_by_role("button", name="Presets").click()
    plane.page.get_by_role("button", name="Power weights wander").click()
    plane.wait_drawn(before)
    wait_reports(plane, "rows => rows.length === 3")
    rows = healthy(plane)
    assert rows["straight"]["lpr"] < rows["power"]["lpr"]
    plane.root.get_by_text("Even on one Gaussian").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 1920])
def test_looks_whole_in_light_and_dark(opened, scheme, width):
    plane = opened(QUICK, scheme=scheme, width=width, height=800 if width == 1280 else 1080)
    healthy(plane)
    page = plane.page
    box = plane.root.bounding_box()
    assert box["x"] + box["width"] <= width
    title = page.get_by_text("two spirals · n = 1000").bounding_box()
    header = page.get_by_test_id("stHeader").bounding_box()
    assert title["y"] >= header["y"] + header["height"]  # nothing lies under Streamlit's own header
    stroke = page.evaluate("() => getComputedStyle(document.querySelector('.plane-path[data-method=truth]')).stroke")
    ground = page.evaluate("() => getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert brightness(stroke) < brightness(ground) if scheme == "light" else brightness(stroke) > brightness(ground)


def brightness(color: str) -> float:
    return sum(float(part) for part in color[color.index("(") + 1 : color.index(")")].split(",")[:3])


def test_nonsense_in_the_link(opened):
    names = ("dataset", "size", "seed", "models", "beta", "methods", "k", "S", "d", "T", "start", "end")
    plane = opened("&".join(f"{name}=%3Cb%3Enonsense" for name in names))
    said = plane.page.get_by_test_id("stAlert").inner_text()
    assert all(name in said for name in names)
    healthy(plane)
    plane.page.locator(".plane-plot").scroll_into_view_if_needed()
    plane.click(-0.4, 0.0)
    healthy(plane)


def test_far_outside_and_back(opened):
    plane = opened(f"dataset=standard_normal&start=45,10&{QUICK}")
    rows = healthy(plane)
    assert rows["straight"]["lpr"] is not None
    plane.page.get_by_role("button", name="Reset", exact=True).click()
    wait_reports(plane, "rows => rows.length > 0 && rows.every(row => row.lpr < 5)")
    healthy(plane)


def test_identical_endpoints_are_a_sentence_and_the_next_click_works(opened):
    plane = opened(f"dataset=standard_normal&start=0.5,0.5&end=0.5,0.5&{QUICK}")
    plane.page.get_by_text("start and end should be different points").wait_for()
    plane.click(-1.0, 0.3)
    wait_reports(plane, "rows => rows.length === 4")
    healthy(plane)


def test_hover_shows_the_live_geodesic(opened):
    plane = opened(f"dataset=circle&{QUICK}")
    plane.page.mouse.move(*plane.pixel(0.0, 1.0))
    plane.page.mouse.move(*plane.pixel(0.05, 1.0))
    plane.page.wait_for_selector(".plane-live:not(.plane-hidden)")
    points = plane.page.evaluate(
        "() => { const line = document.querySelector('.plane-live'); const n = line.getTotalLength();"
        "        const p = line.getPointAtLength(n / 2); return [n, p.x, p.y]; }"
    )
    assert points[0] > 100  # it goes around the ring, not across it


def test_downloads_and_code(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    plane.page.get_by_role("tab", name="Data").click()
    with plane.page.expect_download() as download:
        plane.page.get_by_role("button", name="Everything as JSON").click()
    stored = json.loads(download.value.path().read_text())
    assert [row["method"] for row in stored["reports"]] == [row["method"] for row in plane.state("reports")]
    plane.page.get_by_test_id("stCode").filter(has_text="methods.compare(scene").wait_for()


def test_the_figure_keeps_hidden_lines_over_a_click(opened):
    plane = opened(f"dataset=standard_normal&{QUICK}")
    figure = plane.page.get_by_test_id("figure")
    figure.locator(".legendtoggle").first.click()
    plane.page.wait_for_timeout(700)
    hidden = "() => document.querySelector('[data-testid=figure]').data.filter(t => t.visible === 'legendonly').length"
    assert plane.page.evaluate(hidden) > 0
    plane.page.locator(".plane-plot").scroll_into_view_if_needed()
    plane.click(0.4, 0.9)
    plane.page.wait_for_timeout(700)
    assert plane.page.evaluate(hidden.replace(").data.", ")._fullData.")) > 0
