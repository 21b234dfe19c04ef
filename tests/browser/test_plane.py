"""The plane in a real browser, on a toy page without core: what a unit test cannot drive."""

import json

import numpy as np
import pytest
from driver import PLANE, Plane

pytestmark = pytest.mark.browser


@pytest.fixture
def plane(new_page, serve):
    return Plane(new_page(), serve("tests/browser/plane_demo.py"))


def choose(plane, label):
    """Tick or untick a box in the demo's sidebar."""
    before = plane.drawn
    plane.page.locator("label").filter(has_text=label).first.click()
    plane.wait_drawn(before)


def arrived(plane):
    """The sprayed points that Python was told of, as they stand when its script has ended."""
    plane.page.wait_for_selector("[data-testid='stApp'][data-test-script-state='notRunning']")
    return json.loads(plane.page.locator("#drawn").get_attribute("data-points"))


def sample():
    """The demo's points, as ``ring(0, 1000)`` there makes them."""
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 1000), rng.normal(1, 0.1, 1000)
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)]


def nearest(points, spot):
    return points[np.hypot(*(points - spot).T).argmin()]


def near(point, expected, tolerance=0.005):
    return max(abs(a - b) for a, b in zip(point, expected)) <= tolerance


def test_clicks_set_a_then_b_exactly_where_they_fall(plane):
    assert plane.page.locator(".plane-hint").text_content() == "Click to set A"
    plane.click(-1.3, 1.31)  # empty corner
    assert near(plane.endpoints[0], (-1.3, 1.31))
    assert near(plane.endpoints[1], (0.8, 0.6))
    assert plane.page.locator(".plane-hint").text_content() == "Click to set B"
    plane.click(0.02, -1.0)  # among the points
    assert near(plane.endpoints[1], (0.02, -1.0))
    middle = plane.path("truth").evaluate("line => { const p = line.getPointAtLength(line.getTotalLength() / 2); "
                                          "const b = line.ownerSVGElement.getBoundingClientRect(); "
                                          "return [b.left + p.x, b.top + p.y] }")  # fmt: skip
    before = plane.drawn
    plane.page.mouse.click(*middle)  # on a path
    plane.wait_drawn(before)
    assert near(plane.pixel(*plane.endpoints[0]), middle, 1.0)


def test_reports_are_plain_json(plane):
    reports = plane.state("reports")
    assert [set(report) for report in reports] == [{"method", "lpr", "log_length", "seconds", "status"}] * 8
    assert reports[0] == {"method": "truth", "lpr": 0.0, "log_length": 1.25, "seconds": 0.028, "status": "OK"}


def test_a_fresh_place_is_shown_at_once_and_old_paths_fade(plane):
    plane.page.get_by_label("Delay (ms)").fill("1000")
    plane.page.get_by_label("Delay (ms)").press("Enter")
    plane.page.wait_for_timeout(2500)
    before = plane.drawn
    plane.page.mouse.click(*plane.pixel(-0.2, -1.0))
    plane.page.wait_for_selector(f"{PLANE}.plane-pending")
    box = plane.handle("A").locator(".plane-disk").bounding_box()
    assert near((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), plane.pixel(-0.2, -1.0), 1.5)
    assert plane.drawn == before
    plane.wait_drawn(before)


def test_quick_clicks_end_in_the_last_state(plane):
    spots = [(-1, -1), (1, 1), (-1, 1), (1, -1), (0, 1.2)]
    for spot in spots:
        plane.page.mouse.click(*plane.pixel(*spot))
    plane.page.wait_for_timeout(1500)
    plane.wait_drawn(0)
    assert near(plane.endpoints[0], (0, 1.2))
    assert near(plane.endpoints[1], (1, -1))


def test_a_double_click_is_one_click(plane):
    zoom = plane.frame()
    plane.page.mouse.dblclick(*plane.pixel(0, 1.2))
    plane.page.wait_for_timeout(800)
    assert near(plane.endpoints[0], (0, 1.2))
    assert near(plane.endpoints[1], (0.8, 0.6))
    assert plane.frame() == zoom


def test_drag_previews_and_lands(plane):
    before = plane.drawn
    plane.drag((0.8, 0.6), (1.1, -0.4))
    assert plane.page.locator(".plane-live").get_attribute("d").startswith("M")
    assert plane.drawn == before  # the server hears of it when the button is released
    plane.page.mouse.up()
    plane.wait_drawn(before)
    assert near(plane.endpoints[1], (1.1, -0.4))
    assert near(plane.endpoints[0], (-0.7, -0.7))
    assert plane.page.locator(".plane-live").get_attribute("d") == ""


def test_escape_cancels_a_drag(plane):
    before = plane.drawn
    plane.drag((-0.7, -0.7), (0.3, 0.3))
    plane.page.keyboard.press("Escape")
    plane.page.mouse.up()
    plane.page.wait_for_timeout(500)
    box = plane.handle("A").locator(".plane-disk").bounding_box()
    assert near((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), plane.pixel(-0.7, -0.7), 1.5)
    assert plane.drawn == before


def test_handles_listen_to_the_keyboard(plane):
    plane.handle("A").focus()
    plane.page.keyboard.press("Tab")
    assert plane.page.evaluate("document.activeElement.dataset.handle") == "B"
    before = plane.drawn
    plane.page.keyboard.press("ArrowLeft")
    plane.page.keyboard.press("Shift+ArrowDown")
    plane.wait_drawn(before)
    assert near(plane.endpoints[1], (0.8 - 0.03, 0.6 - 0.15))
    assert plane.page.evaluate("document.activeElement.dataset.handle") == "B"
    assert "Point B at 0.770, 0.450" in plane.handle("B").get_attribute("aria-label")


def test_zoom_and_hidden_paths_survive_a_redraw(plane):
    plane.page.mouse.move(*plane.pixel(0, 0))
    plane.page.mouse.wheel(0, -240)
    plane.page.wait_for_timeout(700)
    zoom = plane.frame()
    assert zoom["x"][1] - zoom["x"][0] < 2.9
    plane.row("power").click()
    assert not plane.path("power").is_visible()
    plane.click(0.3, 0.9)
    assert plane.frame() == zoom
    assert not plane.path("power").is_visible()
    assert plane.path("flow").is_visible()
    assert plane.page.get_by_role("button", name="power graph").get_attribute("aria-pressed") == "false"
    plane.row("power").click()
    assert plane.path("power").is_visible()
    plane.root.get_by_role("button", name="Show everything").click()
    plane.page.wait_for_timeout(300)
    assert plane.frame()["x"] == pytest.approx([-1.5, 1.5])


def test_a_new_base_picture_of_the_same_view_keeps_the_zoom(plane):
    plane.page.mouse.move(*plane.pixel(0.5, 0.5))
    plane.page.mouse.wheel(0, -240)
    plane.page.wait_for_timeout(700)
    zoom, before = plane.frame(), plane.drawn
    plane.page.get_by_label("Seed").fill("3")
    plane.page.get_by_label("Seed").press("Enter")
    plane.wait_drawn(before)
    assert plane.frame() == zoom
    before = plane.drawn
    plane.page.get_by_label("Seed").fill("9")  # another view
    plane.page.get_by_label("Seed").press("Enter")
    plane.wait_drawn(before)
    assert plane.frame()["x"] == pytest.approx([-1.5, 1.5])


def test_a_picture_that_was_lost_is_sent_again(plane):
    before = plane.drawn
    plane.page.get_by_role("button", name="Claim seed 7").click()
    plane.wait_drawn(before)
    before = plane.drawn
    plane.page.get_by_label("Seed").fill("7")
    plane.page.get_by_label("Seed").press("Enter")
    plane.wait_drawn(before)
    plane.click(0.3, 0.9)
    assert near(plane.endpoints[0], (0.3, 0.9))


def test_leaving_the_page_and_coming_back(plane):
    plane.row("kde").click()
    plane.root.get_by_role("button", name="Zoom in").click()
    plane.page.wait_for_timeout(300)
    zoom = plane.frame()
    plane.click(0.3, 0.5)
    before = plane.drawn
    plane.page.get_by_text("elsewhere").click()
    plane.page.wait_for_selector(PLANE, state="detached")
    plane.page.locator("label").filter(has_text="plane").click()
    plane.wait_drawn(before)
    assert near(plane.endpoints[0], (0.3, 0.5))
    assert not plane.path("kde").is_visible()
    assert plane.frame() == zoom
    plane.click(-0.5, 0.1)
    assert near(plane.endpoints[1], (-0.5, 0.1))


def test_reload_draws_again(plane):
    plane.page.reload()
    plane.wait_drawn(0)
    plane.click(0.3, 0.9)
    assert near(plane.endpoints[0], (0.3, 0.9))


def test_python_can_move_the_endpoints(plane):
    before = plane.drawn
    plane.page.get_by_role("button", name="Swap").click()
    plane.wait_drawn(before)
    assert plane.endpoints == [[0.8, 0.6], [-0.7, -0.7]]


def test_hover_draws_a_live_path_quickly(plane):
    live = plane.page.locator(".plane-live")
    costs = []
    for k in range(20):
        plane.page.mouse.move(*plane.pixel(0.9 - 0.05 * k, -1.1))
        plane.page.wait_for_timeout(40)
        costs.append(float(plane.root.get_attribute("data-hover-ms")))
    assert len(live.get_attribute("d")) > 100
    assert sorted(costs)[10] <= 2.0
    plane.page.mouse.move(5, 5)
    plane.page.wait_for_timeout(100)
    assert live.get_attribute("d") == ""


def test_pointing_at_rows_and_paths(plane):
    plane.row("flow").hover()
    assert "plane-strong" in plane.path("flow").get_attribute("class")
    middle = plane.path("straight").evaluate("line => { const p = line.getPointAtLength(line.getTotalLength() / 2); "
                                             "const b = line.ownerSVGElement.getBoundingClientRect(); "
                                             "return [b.left + p.x, b.top + p.y] }")  # fmt: skip
    plane.page.mouse.move(*middle)
    plane.page.wait_for_timeout(100)
    assert "plane-strong" in plane.path("straight").get_attribute("class")
    assert "plane-strong" not in plane.path("flow").get_attribute("class")
    assert plane.page.locator(".plane-tip").text_content() == "straight line · LPR 0.320"


def test_rows_show_numbers_notes_and_loading(plane):
    cells = plane.row("power").locator("td").all_text_contents()
    assert cells[1:4] == ["power graph", "0.280", "+32 %"]
    assert plane.page.get_by_text("Stopped early: try a smaller beta.").is_visible()
    before = plane.drawn
    plane.page.get_by_text("Loading", exact=True).click()
    plane.wait_drawn(before)
    assert plane.page.get_by_text("loading model…").count() == 2
    assert plane.path("flow").count() == 0


def test_touch(new_page, serve):
    plane = Plane(new_page(has_touch=True), serve("tests/browser/plane_demo.py"))
    before = plane.drawn
    plane.page.touchscreen.tap(*plane.pixel(0.1, 1.0))
    plane.wait_drawn(before)
    assert near(plane.endpoints[0], (0.1, 1.0), 0.02)


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (1920, True), (800, False)])
def test_the_plane_is_square_and_the_rows_fit(new_page, serve, width, beside):
    plane = Plane(new_page(width=width, height=900), serve("tests/browser/plane_demo.py"))
    frame = plane.frame()
    assert frame["width"] == pytest.approx(frame["height"], abs=1)
    stage = plane.page.locator(".plane-stage").bounding_box()
    table = plane.page.locator(".plane-table").bounding_box()
    assert (table["x"] > stage["x"] + stage["width"]) == beside
    assert plane.page.evaluate("document.querySelector('.plane-table').scrollWidth") <= table["width"] + 1


def test_the_theme_is_followed_without_a_reload(new_page, serve):
    plane = Plane(new_page(), serve("tests/browser/plane_demo.py"))
    brightness = "node => getComputedStyle(node).%s.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3"

    def look():
        return (
            plane.root.evaluate(brightness % "backgroundColor"),
            plane.path("truth").evaluate(brightness % "stroke"),
            plane.page.locator(".plane-plot .xtick text").first.evaluate(brightness % "fill"),
            plane.page.locator(".plane-points").evaluate(brightness % "color"),
        )

    background, *ink = look()
    assert background > 200
    assert max(ink) < 100
    plane.page.emulate_media(color_scheme="dark")
    plane.page.wait_for_timeout(500)
    background, *ink = look()
    assert background < 60
    assert min(ink) > 200


def test_window_holds_nothing_of_ours(plane):
    assert plane.page.evaluate("typeof window.moduleName") == "undefined"


def test_spraying(plane):
    choose(plane, "Draw")
    assert plane.page.locator(".plane-hint").text_content() == "Drag to spray points"
    assert plane.page.locator(".plane-sentence").is_visible()
    for hidden in (plane.handle("A"), plane.path("truth"), plane.page.locator(".plane-table")):
        assert not hidden.is_visible()
    zoom, before = plane.frame(), plane.drawn
    plane.drag((-1, 0.5), (0, 0.5))
    plane.page.wait_for_timeout(600)
    assert plane.page.locator(".plane-circle").is_visible()
    assert plane.drawn == before  # the server hears of it when the button is released
    seen = plane.ink()
    assert seen > 0
    plane.page.mouse.up()
    plane.wait_drawn(before)
    points = arrived(plane)
    assert 60 < len(points) < 400
    reach = 2.5 * 12 / zoom["width"] * 3.0 + 0.01  # the brush in data units
    assert all(-1 - reach <= x <= reach and abs(y - 0.5) <= reach for x, y in points)
    assert sum(abs(x) < reach for x, _ in points) > 40  # most of the time was spent there
    assert plane.frame() == zoom
    assert plane.endpoints == [[-0.7, -0.7], [0.8, 0.6]]
    choose(plane, "Draw")
    assert plane.handle("A").is_visible()
    assert plane.path("truth").is_visible()
    plane.click(-1.3, 1.31)
    assert near(plane.endpoints[0], (-1.3, 1.31))


def test_a_click_sprays_a_few_points(plane):
    choose(plane, "Draw")
    plane.click(0.5, 0.5)
    assert 0 < len(arrived(plane)) < 60


def test_the_edge_cuts_a_stroke(plane):
    choose(plane, "Draw")
    plane.drag((-1.2, 1.49), (1.2, 1.49))
    plane.page.wait_for_timeout(300)
    before = plane.drawn
    plane.page.mouse.up()
    plane.wait_drawn(before)
    points = arrived(plane)
    assert len(points) > 5
    assert max(y for _, y in points) <= 1.5


def test_sprayed_points_stay_in_sight_until_python_answers(plane):
    choose(plane, "Draw")
    plane.page.get_by_label("Delay (ms)").fill("700")
    plane.page.get_by_label("Delay (ms)").press("Enter")
    plane.page.wait_for_timeout(1800)
    before = plane.drawn
    plane.drag((-1, 0.5), (1, -0.5))
    plane.page.mouse.up()
    seen = plane.ink()
    for _ in range(20):
        assert plane.ink() == pytest.approx(seen, rel=0.1)  # float32 moves the edge of a dot
        plane.page.wait_for_timeout(50)
    plane.wait_drawn(before)
    assert plane.ink() == pytest.approx(seen, rel=0.1)


def test_quick_strokes_all_arrive_once(plane):
    choose(plane, "Draw")
    spots = [plane.pixel(x, 0) for x in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    for spot in spots:  # faster than Streamlit hears of them
        plane.page.mouse.click(*spot)
    plane.page.wait_for_timeout(2500)
    points = [tuple(point) for point in arrived(plane)]
    assert {round(2 * x) for x, _ in points} == {-2, -1, 0, 1, 2}
    assert len(set(points)) == len(points)


def test_escape_cancels_a_stroke(plane):
    choose(plane, "Draw")
    before, clean = plane.drawn, plane.ink()
    plane.drag((-1, 0.5), (0, 0.5))
    assert plane.ink() > clean
    plane.page.keyboard.press("Escape")
    assert plane.ink() == clean
    plane.page.mouse.move(*plane.pixel(0.5, 0.5))
    plane.page.mouse.up()
    plane.page.wait_for_timeout(500)
    assert plane.drawn == before
    assert plane.ink() == clean
    assert arrived(plane) == []


def test_the_wheel_zooms_while_drawing(plane):
    choose(plane, "Draw")
    plane.page.mouse.move(*plane.pixel(0, 0))
    plane.page.mouse.wheel(0, -240)
    plane.page.wait_for_timeout(700)
    zoom = plane.frame()
    assert zoom["x"][1] - zoom["x"][0] < 2.9
    plane.click(0.5, 0.5)
    assert plane.frame() == zoom
    assert all(near(point, (0.5, 0.5), 0.25) for point in arrived(plane))


def test_a_finger_sprays(new_page, serve):
    plane = Plane(new_page(width=390, height=800, has_touch=True), serve("tests/browser/plane_demo.py"))
    plane.page.get_by_test_id("stExpandSidebarButton").click()
    choose(plane, "Draw")
    plane.page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    plane.page.wait_for_timeout(500)
    zoom, before = plane.frame(), plane.drawn
    finger = plane.page.context.new_cdp_session(plane.page)
    for kind, x in [("Start", -0.5), ("Move", -0.2), ("Move", 0.2), ("Move", 0.5), ("End", None)]:
        left, top = plane.pixel(x or 0, 0)
        touches = [] if x is None else [{"x": left, "y": top}]
        finger.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": touches})
        plane.page.wait_for_timeout(50)
    plane.wait_drawn(before)
    assert len(arrived(plane)) > 8
    assert all(abs(y) < 0.4 for _, y in arrived(plane))
    assert plane.frame() == zoom
    assert not plane.page.locator(".plane-circle").is_visible()


def test_marks_lie_under_their_path_and_hide_with_it(plane):
    assert plane.page.locator(".plane-mark").count() == 0
    choose(plane, "Marks")
    assert plane.marks("power").count() == 2
    assert plane.marks("kde").count() == 1
    ends = plane.marks("power").first.evaluate("band => { const b = band.ownerSVGElement.getBoundingClientRect(); "
                                               "const p = band.getPointAtLength(0); "
                                               "return [b.left + p.x, b.top + p.y] }")  # fmt: skip
    plane.page.mouse.move(*ends)
    plane.page.wait_for_timeout(100)
    assert plane.page.locator(".plane-tip").text_content() == "power graph · LPR 0.280"
    signs = plane.page.get_by_role("img", name="warning")
    assert [sign.is_visible() for sign in signs.all()].count(True) == 2
    assert plane.row("power").locator(".plane-warning").is_visible()
    assert plane.page.locator(".plane-note:visible").text_content().endswith("Stopped early: try a smaller beta.")
    plane.row("power").click()
    assert not plane.marks("power").first.is_visible()
    plane.click(0.3, 0.9)
    assert not plane.marks("power").first.is_visible()
    plane.row("power").click()
    assert plane.marks("power").first.is_visible()


def test_endpoints_snap_to_the_sample(plane):
    choose(plane, "Snap")
    points = sample()
    plane.click(0, 0.2)
    assert near(plane.endpoints[0], nearest(points, (0, 0.2)), 1e-6)
    before = plane.drawn
    plane.drag((0.8, 0.6), (0.1, -0.1))
    box = plane.handle("B").locator(".plane-disk").bounding_box()
    target = nearest(points, (0.1, -0.1))
    assert near((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), plane.pixel(*target), 1.5)
    plane.page.mouse.up()
    plane.wait_drawn(before)
    assert near(plane.endpoints[1], target, 1e-6)
    for key, arrow in [("ArrowLeft", (-1, 0)), ("ArrowDown", (0, -1))]:
        steps = points - plane.endpoints[1]
        lengths = np.hypot(*steps.T)
        cone = (lengths > 1e-6) & (steps @ arrow >= 0.5 * lengths)
        expected = points[cone][lengths[cone].argmin()]
        before = plane.drawn
        plane.handle("B").focus()
        plane.page.keyboard.press(key)
        plane.wait_drawn(before)
        assert near(plane.endpoints[1], expected, 1e-6)


def test_titles_are_shown_literally(plane):
    frame = plane.frame()
    choose(plane, "Axis titles")
    assert plane.page.locator(".xtitle").text_content() == r"<b>length</b> & $\alpha$ %{x}"
    assert plane.page.locator(".ytitle").text_content() == "&lt; width <script>"
    assert plane.frame()["width"] == pytest.approx(plane.frame()["height"], abs=1)
    assert plane.frame()["width"] < frame["width"]
    assert plane.page.get_by_role("button", name="<i>reference</i> geodesic").is_visible()
    choose(plane, "Draw")  # another base with the same titles
    assert plane.page.locator(".xtitle").text_content().startswith("<b>length</b>")
