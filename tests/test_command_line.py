"""`python -m core paths`: the table, the JSON, and one clear sentence for bad input."""

import json

import numpy as np
import pytest

from core import checkpoints, methods, model_files
from core.__main__ import main

ENDS = ["--dataset", "standard_normal", "--size", "200", "--start", "-1,0.5", "--end", "1,0.2"]


def test_json_holds_what_compare_returns(capsys):
    assert main(["paths", *ENDS, "--beta", "1/D", "--methods", "truth,power", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    scene = methods.Scene.load("standard_normal", 200)
    expected = methods.compare(scene, (-1.0, 0.5), (1.0, 0.2), 0.5, ["truth", "power"])
    assert printed["beta"] == 0.5
    assert [r["method"] for r in printed["reports"]] == ["truth", "power"]
    for row, report in zip(printed["reports"], expected):
        assert row["lpr"] == pytest.approx(report.lpr, abs=1e-9)
        assert row["path"][0] == [-1.0, 0.5]
        assert row["path"][-1] == [1.0, 0.2]


def test_table_has_a_row_a_method(capsys):
    assert main(["paths", *ENDS, "--methods", "straight,truth"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["method", "straight", "truth"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "nowhere", "--start", "0,0", "--end", "1,1"], "name should be one of"),
        (["--start", "0,0,0", "--end", "1,1"], "start should have shape (2,)"),
        (["--start", "0,0", "--end", "0,0"], "different points"),
        (["--start", "0,0", "--end", "1,1", "--beta", "-1"], "beta should be a number >= 0"),
        (["--start", "0,0", "--end", "1,1", "--methods", "magic"], "names should be among"),
        (["--start", "0,0", "--end", "1,1", "--preset", "best"], "preset should be one of"),
    ],
)
def test_bad_input_is_one_sentence(arguments, said, capsys, unchecked):
    assert main(["paths", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_damaged_model_costs_its_own_rows_only(monkeypatch, capsys):
    def damaged(*_):
        raise model_files.CheckpointError("the file does not match its hash")

    monkeypatch.setattr(checkpoints, "shipped", damaged)
    assert main(["paths", *ENDS, "--methods", "flow,score,truth", "--json"]) == 0
    rows = {r["method"]: r for r in json.loads(capsys.readouterr().out)["reports"]}
    assert rows["flow"]["status"] == rows["score"]["status"] == "UNREADABLE"
    assert "git checkout assets/weights" in rows["flow"]["advice"]
    assert rows["truth"]["lpr"] == pytest.approx(0, abs=1e-9)


def test_points_of_a_file(tmp_path, capsys):
    file = tmp_path / "mine.csv"
    np.savetxt(file, np.random.default_rng(0).normal(size=(60, 3)), delimiter=",", header="a,b,c", comments="")
    ends = ["--start", "-0.5,0,0", "--end", "0.5,0.1,0"]
    assert main(["paths", "--points", str(file), *ends, "--beta", "1/D", "--methods", "truth,power", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["beta"] == pytest.approx(1 / 3)
    assert printed["reports"][0]["path"][0] == [-0.5, 0, 0]
    two = ["--points", str(file), "--columns", "c,a", "--standardize", "--start", "0,0", "--end", "1,1"]
    assert main(["paths", *two, "--methods", "truth"]) == 0
    assert main(["paths", "--points", str(file), "--start", "0,0", "--end", "1,1"]) == 2
    assert "--start should be 3 numbers" in capsys.readouterr().err
    assert main(["paths", "--points", str(tmp_path / "none.csv"), *ends]) == 2
    assert "cannot be read" in capsys.readouterr().err
