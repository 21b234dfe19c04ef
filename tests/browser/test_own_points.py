"""One's own points in a real browser: files the project has never seen go from upload to paths, and are trained on."""

import io
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from driver import Plane
from sklearn import datasets as sklearn_datasets

pytestmark = pytest.mark.browser
APP = "dashboard/app.py"
QUICK = "dataset=standard_normal&size=200&methods=truth,power,mixture,kde"
PATIENCE = 180_000  # milliseconds, for a training on a busy machine


@pytest.fixture
def opened(new_page, serve):
    """A function that opens the explorer with a query."""

    def open_with(query: str = QUICK, **options) -> Plane:
        return Plane(new_page(**options), f"{serve(APP)}/?{query}")

    return open_with


def csv(name: str) -> bytes:
    """A dataset of scikit-learn as its users export it."""
    if name == "moons":
        points, _ = sklearn_datasets.make_moons(200, noise=0.06, random_state=3)
        table = pd.DataFrame(points, columns=["x", "y"])
    else:
        table = getattr(sklearn_datasets, f"load_{name}")(as_frame=True).frame
    return table.to_csv(index=False).encode()


def upload(plane: Plane, data: bytes, name: str) -> None:
    before = plane.drawn
    plane.page.get_by_role("button", name="Bring your own points").click()
    box = plane.page.locator('[data-testid="stFileUploaderDropzoneInput"]').first
    box.set_input_files({"name": name, "mimeType": "text/csv", "buffer": data})
    # A drawing alone may be that of models which have come; and a menu that closes too early takes the file with it.
    plane.page.wait_for_function("() => location.search.includes('dataset=own-')", timeout=PATIENCE)
    plane.wait_drawn(before)
    plane.page.keyboard.press("Escape")
    box.wait_for(state="detached")


def wait_for_rows(plane: Plane, test: str) -> dict:
    """The rows that fulfill a JavaScript test when no script is under way that could draw others."""
    found = plane.page.wait_for_function(
        f"""() => {{ const text = document.querySelector('[data-testid="plane"]')?.dataset.reports;
                     const app = document.querySelector('[data-testid="stApp"]');
                     const rows = text && JSON.parse(text);
                     return app.dataset.testScriptState === 'notRunning' && rows && ({test})(rows) && rows; }}""",
        timeout=PATIENCE,
    )
    assert plane.page.locator('[data-testid="stException"]').count() == 0
    return {row["method"]: row for row in found.json_value()}


@pytest.mark.parametrize(("name", "columns", "rows"), [("wine", 13, 178), ("iris", 4, 149), ("moons", 2, 200)])
def test_a_file_goes_from_upload_to_paths(opened, name, columns, rows):
    plane = opened()
    upload(plane, csv(name), f"{name}.csv")
    found = wait_for_rows(plane, "rows => rows.length === 4 && rows.every(row => row.lpr !== null)")
    assert found["truth"]["lpr"] == pytest.approx(0, abs=1e-9)
    assert min(row["lpr"] for row in found.values()) > -1e-5
    plane.page.get_by_text("LPR against the fitted reference").wait_for()
    if columns == 2:
        return
    before = plane.drawn
    plane.page.get_by_role("button", name=re.compile(r"Use all \d+ columns")).click()
    plane.page.get_by_text(re.compile(r"All is computed in \d+ dimensions")).wait_for(timeout=PATIENCE)
    plane.wait_drawn(before)
    assert "beta=" in plane.page.url
    wait_for_rows(plane, "rows => rows.length === 4 && rows.every(row => row.lpr !== null)")
    # A click puts the endpoint on a data point, and only there.
    x, y = plane.frame()["x"], plane.frame()["y"]
    plane.click(x[0] + 0.3 * (x[1] - x[0]), y[0] + 0.6 * (y[1] - y[0]))
    assert "start=%23" in plane.page.url or "end=%23" in plane.page.url


def test_pick_columns(opened):
    plane = opened()
    upload(plane, csv("wine"), "wine.csv")
    before = plane.drawn
    # Typed, not clicked: the list takes no click while it scrolls, and the driver scrolls it right before clicking.
    plane.page.get_by_test_id("stMultiSelect").locator("input").fill("color_intensity")
    plane.page.keyboard.press("Enter")
    plane.wait_drawn(before)
    plane.page.get_by_text("All is computed in 3 dimensions").wait_for(timeout=PATIENCE)
    assert "columns=0,1,9" in plane.page.url.replace("%2C", ",")


def test_a_bad_file_is_a_sentence_and_all_stays(opened):
    plane = opened("dataset=circle&methods=truth,power")
    reports = plane.state("reports")
    plane.page.get_by_role("button", name="Bring your own points").click()
    box = plane.page.locator('[data-testid="stFileUploaderDropzoneInput"]').first
    book = b"PK\x03\x04xl/workbook.xml" * 9
    box.set_input_files({"name": "book.xlsx", "mimeType": "application/zip", "buffer": book})
    plane.page.get_by_test_id("stAlert").filter(has_text="book.xlsx").wait_for()
    assert plane.state("reports") == reports
    assert "dataset=circle" in plane.page.url


def test_paste(opened):
    plane = opened()
    text = io.StringIO()
    np.savetxt(text, np.random.default_rng(0).normal(size=(60, 2)), fmt="%.3f", delimiter="\t")
    plane.page.get_by_role("button", name="Bring your own points").click()
    plane.page.get_by_label("Or paste a table").fill(text.getvalue())
    plane.page.get_by_label("Or paste a table").press("Control+Enter")
    before = plane.drawn
    plane.page.get_by_role("button", name="Use the text").click()
    plane.wait_drawn(before)
    plane.page.wait_for_function("() => location.search.includes('dataset=own-')")
    wait_for_rows(plane, "rows => rows.length === 4 && rows.every(row => row.lpr !== null)")


def test_draw_points_by_hand(opened):
    plane = opened()
    plane.page.get_by_role("button", name="Bring your own points").click()
    plane.page.get_by_role("button", name="Or draw points by hand").click()
    plane.page.get_by_role("heading", name="Draw points · 0").wait_for()
    plane.page.keyboard.press("Escape")
    for height in (-0.5, 0.5):
        before = plane.drawn
        plane.page.mouse.move(*plane.pixel(-0.6, height))
        plane.page.mouse.down()
        plane.page.mouse.move(*plane.pixel(0.6, height), steps=25)
        plane.page.mouse.up()
        plane.wait_drawn(before)
    use = plane.page.get_by_role("button", name="Use these points")
    plane.page.wait_for_function("() => !/· 0$/.test(document.querySelector('h5')?.innerText ?? '· 0')")
    before = plane.drawn
    use.click()
    plane.page.wait_for_function("() => location.search.includes('dataset=own-')")
    plane.wait_drawn(before)
    wait_for_rows(plane, "rows => rows.length === 4 && rows.every(row => row.lpr !== null)")
    plane.page.get_by_text("drawn points").first.wait_for()


def test_train_cancel_train_again_click_download_reload(opened):
    plane = opened("methods=truth,flow,score,mixture")
    upload(plane, csv("moons"), "moons.csv")
    page = plane.page
    wait_for_rows(plane, "rows => rows.some(row => row.status === 'UNAVAILABLE')")
    page.get_by_role("button", name="Train flow and score").click()
    page.get_by_text(re.compile(r"Training: .*left")).wait_for(timeout=PATIENCE)
    # The page stays usable meanwhile.
    plane.click(0.0, 0.9)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name=re.compile("Train")).wait_for(timeout=5000)
    page.get_by_role("button", name=re.compile("Train")).click()
    rows = wait_for_rows(
        plane, "rows => ['flow', 'score'].every(m => rows.some(r => r.method === m && r.lpr !== null))"
    )
    page.get_by_role("button", name="Train again").wait_for(timeout=PATIENCE)
    rows = wait_for_rows(
        plane, "rows => ['flow', 'score'].every(m => rows.some(r => r.method === m && r.lpr !== null))"
    )
    assert rows["score"]["lpr"] < 1
    plane.click(0.5, 0.1)
    page.get_by_role("tab", name="Models").click()
    page.get_by_text("Trained with the fast preset on").wait_for()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download the models").click()
    data = started.value.path().read_bytes()
    assert len(data) > 10_000
    # Another session of the same server finds the same points and models again.
    again = opened(page.url.split("?")[1])
    rows = wait_for_rows(
        again, "rows => ['flow', 'score'].every(m => rows.some(r => r.method === m && r.lpr !== null))"
    )
    # The link rounds endpoints to six digits.
    shown = {row["method"]: row["lpr"] for row in plane.state("reports")}
    assert rows["score"]["lpr"] == pytest.approx(shown["score"], abs=1e-4)
    # The file is taken back by a scene that has no models.
    other = opened("dataset=moons&size=321&methods=truth,flow,score")
    wait_for_rows(other, "rows => rows.some(row => row.status === 'UNAVAILABLE')")
    other.page.get_by_role("tab", name="Models").click()
    box = other.page.locator('[data-testid="stFileUploaderDropzoneInput"]').last
    box.set_input_files({"name": "mine.safetensors", "mimeType": "application/octet-stream", "buffer": data})
    wait_for_rows(other, "rows => ['flow', 'score'].every(m => rows.some(r => r.method === m && r.lpr !== null))")


def is_training(page):
    page.get_by_text(re.compile(r"Training: .*left")).wait_for(timeout=PATIENCE)


def test_two_sessions_train_at_once_and_take_turns(opened):
    first = opened("dataset=circle&size=222&methods=truth,flow,score")
    second = opened("dataset=spiral&size=222&methods=truth,flow,score")
    first.page.get_by_role("button", name="Train flow and score").click()
    is_training(first.page)
    second.page.get_by_role("button", name="Train flow and score").click()
    second.page.get_by_text("Next in the queue").wait_for()
    for plane in (first, second):
        wait_for_rows(plane, "rows => ['flow', 'score'].every(m => rows.some(r => r.method === m && r.lpr !== null))")


def children_of(server) -> list[int]:
    """Processes that train for a server."""
    found = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def test_a_server_killed_while_it_trains_starts_again(context, own_server):
    page = context(viewport={"width": 1280, "height": 800}).new_page()
    plane = Plane(page, f"{own_server.url}/?methods=truth,flow,score")
    upload(plane, csv("moons"), "moons.csv")
    page.get_by_role("button", name="Train flow and score").click()
    is_training(page)
    address, children = page.url, children_of(own_server)
    assert len(children) == 2
    own_server.kill()
    for _ in range(100):
        if not any(Path(f"/proc/{child}").exists() for child in children):
            break
        time.sleep(0.1)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    own_server.start()
    # The points went with the server: the link says so, and the same file brings the same picture back.
    plane = Plane(page, address)
    page.get_by_text("no longer on this server").wait_for()
    upload(plane, csv("moons"), "moons.csv")
    page.wait_for_function(f"() => location.href === {address!r}", timeout=PATIENCE)
    page.get_by_role("button", name="Train flow and score").click()
    rows = wait_for_rows(
        plane, "rows => ['flow', 'score'].every(m => rows.some(r => r.method === m && r.lpr !== null))"
    )
    assert rows["score"]["lpr"] < 1
    page.close()
