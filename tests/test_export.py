"""What leaves the page can be read again and makes the same picture."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from core import methods
from dashboard import controls, export

NAMES = ("truth", "mixture", "straight")


@pytest.fixture(scope="module")
def spec():
    values, _ = controls.read_url({"dataset": "circle", "size": "200"})
    scene = controls.SceneSpec("circle", 200, 0, "fast")
    return controls.ExplorerSpec(scene, 1.0, NAMES, methods.MethodSettings(), values["start"], values["end"])


@pytest.fixture(scope="module")
def reports(spec):
    scene = methods.Scene.load("circle", 200)
    return methods.compare(scene, spec.start, spec.end, spec.beta, NAMES, spec.settings)


def test_csv_holds_every_path(reports):
    table = pd.read_csv(io.StringIO(export.csv(reports)))
    for report in reports:
        rows = table[table.method == report.method]
        np.testing.assert_allclose(rows[["x", "y"]], report.path)


def test_csv_without_paths_has_a_header_only():
    assert export.csv([]).strip() == "method,point,x,y"


def test_json_is_strict_json(spec, reports):
    text = json.dumps(export.as_json(spec, reports), allow_nan=False)
    again = json.loads(text)
    assert [r["method"] for r in again["reports"]] == list(NAMES)
    assert again["reports"][0]["lpr"] == pytest.approx(0, abs=1e-9)


def test_the_shown_code_makes_the_picture(spec, reports, capsys):
    exec(compile(export.code(spec), "shown", "exec"), {})
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
