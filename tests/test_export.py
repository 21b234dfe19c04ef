"""What leaves the page can be read again and makes the same picture."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from core import datasets, methods
from core.projections import Scaling
from dashboard import export, specs

NAMES = ("truth", "mixture", "straight")


@pytest.fixture(scope="module")
def spec():
    values, _ = specs.read_url({"dataset": "circle", "size": "200"})
    scene = specs.SceneSpec("circle", 200, 0, "fast")
    return specs.ExplorerSpec(scene, 1.0, NAMES, methods.MethodSettings(), values["start"], values["end"])


@pytest.fixture(scope="module")
def reports(spec):
    scene = methods.Scene.load("circle", 200)
    return methods.compare(scene, spec.start, spec.end, spec.beta, NAMES, spec.settings)


@pytest.fixture(scope="module")
def frame(spec):
    return export.Frame(("x", "y"), Scaling.none(2), "", spec.start, spec.end)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Points from a file, standardized, and what the page would know of them."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(120, 3)) * [1, 10, 100] + [0, 5, 50]
    file = tmp_path_factory.mktemp("own") / "my data.csv"
    pd.DataFrame(table, columns=["a", "b,c", "d"]).to_csv(file, index=False)
    points = datasets.read_points(file.read_bytes(), file.name).points
    scaling = Scaling.standard(points)
    scene = methods.Scene.from_points(scaling.apply(points))
    start, end = (tuple(scene.points[i].tolist()) for i in (3, 40))
    scene_spec = specs.SceneSpec("own-0123456789abcdef", 120, 0, "fast", (0, 1, 2), "standard")
    spec = specs.ExplorerSpec(scene_spec, 1 / 3, ("truth", "power"), methods.MethodSettings(), 3, 40)
    frame = export.Frame(("a", "b,c", "d"), scaling, file.name, start, end)
    return file, spec, frame, methods.compare(scene, start, end, 1 / 3, spec.methods)


def test_csv_of_own_points_is_in_the_file_s_units(own):
    file, _, frame, reports = own
    points, table = pd.read_csv(file), pd.read_csv(io.StringIO(export.csv(reports, frame)))
    first = table[table.method == "truth"].iloc[0]
    np.testing.assert_allclose(first[["a", "b,c", "d"]].astype(float), points.iloc[3], rtol=1e-6)


def test_the_shown_code_reads_the_file(own, capsys, monkeypatch):
    file, spec, frame, reports = own
    monkeypatch.chdir(file.parent)
    exec(compile(export.code(spec, frame), "shown", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["truth", "power"]
    assert float(lines[1].split()[2]) == pytest.approx(reports[1].lpr, abs=1e-3)


def test_json_of_own_points_says_how_they_were_scaled(own):
    _, spec, frame, reports = own
    again = json.loads(json.dumps(export.as_json(spec, reports, frame), allow_nan=False))
    assert (again["file"], again["columns"]) == ("my data.csv", ["a", "b,c", "d"])
    np.testing.assert_allclose(again["scale"], frame.scaling.scale)


def test_csv_holds_every_path(reports, frame):
    table = pd.read_csv(io.StringIO(export.csv(reports, frame)))
    for report in reports:
        rows = table[table.method == report.method]
        np.testing.assert_allclose(rows[["x", "y"]], report.path)


def test_csv_without_paths_has_a_header_only(frame):
    assert export.csv([], frame).strip() == "method,point,x,y"


def test_json_is_strict_json(spec, reports, frame):
    text = json.dumps(export.as_json(spec, reports, frame), allow_nan=False)
    again = json.loads(text)
    assert [r["method"] for r in again["reports"]] == list(NAMES)
    assert again["reports"][0]["lpr"] == pytest.approx(0, abs=1e-9)


def test_the_shown_code_makes_the_picture(spec, reports, frame, capsys):
    exec(compile(export.code(spec, frame), "shown", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert float(lines[1].split()[2]) == pytest.approx(reports[1].lpr, abs=1e-3)


def test_link_keeps_the_page_and_replaces_the_parameters():
    assert export.link("http://localhost:8501/?old=1", {"start": "0.1,-2"}) == "http://localhost:8501/?start=0.1,-2"


def test_share_ends_at_the_path_ratio(spec, reports):
    from core import paths

    straight = reports[2]
    density = methods.Scene.load("circle", 200).density
    profile = paths.profile(straight.path, density.log_density, spec.beta)
    assert export.share(profile, straight)[-1] == pytest.approx(np.exp(min(straight.lpr, 700)))
