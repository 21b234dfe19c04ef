"""Experiments lose no finished cell, repeat none, and what is shipped is what comes out again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pytest

from core.experiments import __main__ as command_line
from core.experiments import judges, report, running

# --- a toy that leaves a file for each time that a cell is computed --------------------------------------------------


@dataclass(frozen=True)
class ToySpec:
    folder: str
    count: int = 6
    pause: float = 0.0
    # What goes wrong, and in which cell.
    trouble: str = ""
    where: int = 2
    seeds: int = 1


def toy_cells(spec):
    return [{"number": number, "name": f"cell, {number}"} for number in range(spec.count)]


def toy_measure(spec, cell):
    number = cell["number"]
    Path(spec.folder, f"{number}-{uuid4().hex}").touch()
    time.sleep(spec.pause)
    # The trouble goes away with its file: somebody mended it.
    if number == spec.where and Path(spec.folder, "trouble").exists():
        if spec.trouble == "raise":
            raise ArithmeticError("no such luck")
        if spec.trouble == "interrupt":
            raise KeyboardInterrupt
        if spec.trouble == "die":
            os.kill(os.getpid(), signal.SIGKILL)
    return [{"row": row, "value": number + row / 3, "seconds_pid": os.getpid()} for row in range(2)]


TOY = running.Experiment(
    name="toy",
    paper="Fig. 0",
    question="Does it run?",
    full=ToySpec("."),
    quick=ToySpec(".", count=2),
    cells=toy_cells,
    measure=toy_measure,
)


@pytest.fixture
def traces(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "trouble").touch()
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def said():
    return []


def computed(traces: Path) -> Counter:
    """How often each cell was begun."""
    return Counter(int(path.name.split("-")[0]) for path in traces.glob("*-*"))


def journal(out: Path) -> list[dict]:
    path = out / ".toy.journal"
    return [json.loads(line) for line in path.read_text().splitlines()[1:]] if path.exists() else []


def check(path: Path, spec: ToySpec) -> pd.DataFrame:
    """Every cell is in the table, once and in its order, and the journal is gone."""
    table = running.read("toy", path.parent).table
    assert list(table["number"]) == [number for number in range(spec.count) for _ in range(2)]
    assert list(table["value"]) == pytest.approx([number + row / 3 for number in range(spec.count) for row in range(2)])
    assert not list(path.parent.glob(".*"))
    return table


# --- the law of every run: no cell is lost, none repeated ------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_makes_a_table_that_says_how_it_was_made(workers, traces, out, said):
    spec = ToySpec(str(traces))
    path = running.run(TOY, spec, workers=workers, folder=out, command="typed #1", tell=said.append)
    assert path == out / "toy.csv"
    table = check(path, spec)
    assert set(computed(traces).values()) == {1}
    assert (table["seconds_pid"] == os.getpid()).all() == (workers == 1)
    about = running.read("toy", out).about
    assert about["spec"] == asdict(spec)
    assert about["command"] == "typed #1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", about["date"])
    assert {"python", *running.VERSIONS} == set(about["versions"])
    assert about["seconds"] >= 0
    assert len(said) == spec.count
    assert "[6/6]" in said[-1]
    assert said[-1].endswith("; 0 s left")


def test_what_is_finished_is_written_before_the_next_is_begun(traces, out):
    spec, kept = ToySpec(str(traces)), []
    running.run(TOY, spec, folder=out, tell=lambda _: kept.append((len(journal(out)), len(computed(traces)))))
    assert kept == [(count, count) for count in range(1, spec.count + 1)]


def test_a_slow_cell_holds_nobody_back(traces, out):
    """Results of two processes arrive as they end: not in batches, not in order."""
    spec, arrived = ToySpec(str(traces), count=4, pause=0.3), []
    running.run(TOY, spec, workers=2, folder=out, tell=lambda _: arrived.append(len(journal(out))))
    assert arrived == [1, 2, 3, 4]


COMMAND = """
import sys, test_experiments as tests
from core.experiments import __main__ as command_line, running
from dataclasses import replace
running.NAMES, running.load = ("toy",), lambda name: replace(tests.TOY, full=tests.ToySpec({spec}))
sys.exit(command_line.main({words!r}))
"""


def started(spec: ToySpec, *words: str) -> subprocess.Popen:
    """The real command in a real process, which knows the toy."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in asdict(spec).items())
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(spec=arguments, words=["run", "toy", *words])],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_cells(out: Path, count: int) -> None:
    end = time.monotonic() + 60
    while len(journal(out)) < count:
        assert time.monotonic() < end, "nothing was written"
        time.sleep(0.02)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_goes_on_where_it_was(workers, traces, out, said):
    spec = ToySpec(str(traces), count=10, pause=0.2)
    child = started(spec, "--out", str(out), "--workers", str(workers))
    wait_for_cells(out, 3)
    child.kill()
    child.communicate()
    kept = {entry["cell"]["number"] for entry in journal(out)}
    assert 3 <= len(kept) < spec.count
    time.sleep(1)  # processes of a killed parent end by themselves
    before = computed(traces)
    check(running.run(TOY, spec, resume=True, folder=out, tell=said.append), spec)
    again = computed(traces) - before
    assert set(again) == set(range(spec.count)) - kept
    assert set(again.values()) == {1}
    assert said[0] == f"toy: {len(kept)} of 10 cells were done before"


def test_ctrl_c_leaves_what_is_finished(traces, out):
    spec = ToySpec(str(traces), count=10, pause=0.3)
    child = started(spec, "--out", str(out), "--workers", "2")
    wait_for_cells(out, 2)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does it, to every process
    _, errors = child.communicate(timeout=20)
    assert child.returncode == command_line.INTERRUPTED
    # Processes that end at the same time may have a last word after it.
    assert "interrupted: finished cells are kept, go on with --resume" in errors.splitlines()
    kept = {entry["cell"]["number"] for entry in journal(out)}
    assert len(kept) >= 2
    before = computed(traces)
    check(running.run(TOY, spec, resume=True, folder=out), spec)
    assert set(computed(traces) - before) == set(range(spec.count)) - kept


def test_two_runs_do_not_write_the_same_journal(traces, out):
    spec = ToySpec(str(traces), count=50, pause=0.2)
    child = started(spec, "--out", str(out))
    wait_for_cells(out, 1)
    for resume in (False, True):
        with pytest.raises(ValueError, match="another run is writing"):
            running.run(TOY, spec, resume=resume, folder=out)
    assert child.poll() is None
    child.kill()
    child.communicate()
    running.run(TOY, replace(spec, pause=0), resume=False, folder=out)  # a dead run locks nobody out


@pytest.mark.parametrize("tail", [b'{"cell": {"numb', b'{"cell": {"numb\n', b"\0\0\0\n", b""])
def test_a_line_that_was_not_finished_is_computed_again(tail, traces, out):
    spec = ToySpec(str(traces), trouble="interrupt", where=3)
    with pytest.raises(KeyboardInterrupt):
        running.run(TOY, spec, folder=out)
    with (out / ".toy.journal").open("ab") as file:
        file.write(tail)
    (traces / "trouble").unlink()
    check(running.run(TOY, spec, resume=True, folder=out), spec)
    assert computed(traces) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 1}


def test_a_journal_that_stops_in_its_first_line_is_begun_again(traces, out):
    out.mkdir()
    (out / ".toy.journal").write_text('{"spec": {"fol')
    spec = ToySpec(str(traces))
    check(running.run(TOY, spec, resume=True, folder=out), spec)


def test_resume_refuses_other_settings(traces, out):
    spec = ToySpec(str(traces), trouble="interrupt")
    with pytest.raises(KeyboardInterrupt):
        running.run(TOY, spec, folder=out)
    with pytest.raises(ValueError, match="other settings"):
        running.run(TOY, replace(spec, seeds=2), resume=True, folder=out)
    assert len(journal(out)) == 2


def test_who_forgets_to_resume_loses_nothing(traces, out, said):
    spec = ToySpec(str(traces), trouble="interrupt")
    with pytest.raises(KeyboardInterrupt):
        running.run(TOY, spec, folder=out)
    before = (out / ".toy.journal").read_bytes()
    (traces / "trouble").unlink()
    running.run(TOY, spec, folder=out, tell=said.append)
    assert (out / ".toy.old.journal").read_bytes() == before
    assert ".toy.old.journal" in said[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_cell_costs_no_other(workers, traces, out, said):
    spec = ToySpec(str(traces), trouble="raise")
    with pytest.raises(running.UnfinishedError, match="1 of 6 cells of toy failed: number=2 name=cell, 2"):
        running.run(TOY, spec, workers=workers, folder=out, tell=said.append)
    assert not (out / "toy.csv").exists()
    assert {entry["cell"]["number"] for entry in journal(out)} == {0, 1, 3, 4, 5}
    (line,) = [line for line in said if "failed" in line]
    assert "in toy_measure" in line  # the traceback
    assert "failed, ArithmeticError: no such luck" in line
    (traces / "trouble").unlink()
    check(running.run(TOY, spec, resume=True, folder=out), spec)
    assert computed(traces) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 1}


def test_a_killed_process_is_named_as_such(traces, out):
    spec = ToySpec(str(traces), trouble="die")
    with pytest.raises(running.UnfinishedError, match="was killed"):
        running.run(TOY, spec, workers=2, folder=out)
    (traces / "trouble").unlink()
    check(running.run(TOY, spec, workers=2, resume=True, folder=out), spec)


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def toy_command(monkeypatch, traces, tmp_path):
    """The command line, with the toy in the place of the paper's experiments."""
    toy = replace(TOY, full=ToySpec(str(traces), trouble="raise"), quick=ToySpec(str(traces), count=2))
    toy = replace(toy, large=ToySpec(str(traces), count=8, where=9))
    monkeypatch.setattr(running, "NAMES", ("toy",))
    monkeypatch.setattr(running, "load", lambda name: toy)
    monkeypatch.setattr(running, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(running, "QUICK_RESULTS", tmp_path / "quick")
    monkeypatch.setattr(running, "LARGE_RESULTS", tmp_path / "large")
    return command_line.main


def test_a_command_from_failure_to_table(toy_command, traces, tmp_path, capsys):
    assert toy_command(["run", "toy", "--seeds", "3"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    (traces / "trouble").unlink()
    words = ["run", "toy", "--seeds", "3", "--resume"]
    assert toy_command(words) == 0
    assert f"wrote {tmp_path / 'results' / 'toy.csv'}" in capsys.readouterr().out
    about = running.read("toy", tmp_path / "results").about
    assert about["command"] == "python -m core.experiments run toy --seeds 3 --resume"
    assert about["spec"]["seeds"] == 3


@pytest.mark.parametrize(("size", "count"), [("quick", 2), ("large", 8)])
def test_other_sizes_leave_the_results_alone(size, count, toy_command, tmp_path):
    assert toy_command(["run", "toy", f"--{size}"]) == 0
    assert running.read("toy", tmp_path / size).about["spec"]["count"] == count
    assert not (tmp_path / "results").exists()


def test_the_papers_size_where_it_is_not_the_full_one(capsys):
    assert command_line.main(["run", "kde_tradeoff", "--large"]) == 2
    assert capsys.readouterr().err == "error: kde_tradeoff has no --large\n"
    dimensions = running.load("dimensions")
    assert dimensions.large.size == 200_000
    assert dimensions.cells(dimensions.large) == dimensions.cells(dimensions.full)


@pytest.mark.parametrize("words", [["--seeds", "0"], ["--workers", "-1"], ["--workers", "two"]])
def test_bad_numbers_are_refused(words, toy_command, capsys):
    with pytest.raises(SystemExit):
        toy_command(["run", "toy", *words])
    assert "should be a whole number from 1 on" in capsys.readouterr().err


def test_an_option_of_another_experiment_is_one_sentence(toy_command, capsys):
    assert toy_command(["run", "toy", "--mnist"]) == 2
    assert capsys.readouterr().err == "error: toy has no --mnist\n"


def test_list_is_quick():
    """No experiment loads torch before it measures."""
    code = "import sys; from core.experiments.__main__ import main; main(['list']); assert 'torch' not in sys.modules"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(running.NAMES)


def test_a_name_that_is_not_there(unchecked, monkeypatch):
    with pytest.raises(ValueError, match="name should be one of dimensions, "):
        running.load("magic")
    monkeypatch.setattr(running, "NAMES", ("unwritten",))
    with pytest.raises(ValueError, match="unwritten is not in this installation"):
        running.load("unwritten")


@pytest.mark.parametrize(
    "text", [None, "", "a,b\n1,2\n", "# spec: {\na\n1\n", "# spec\na\n1\n", '# spec: {}\n# command: ""\na\n1\n', "\0"]
)
def test_a_damaged_table_is_one_sentence(text, tmp_path):
    if text is not None:
        (tmp_path / "convergence.csv").write_text(text)
    with pytest.raises(ValueError, match=r"convergence.csv.*experiments run convergence`$"):
        running.read("convergence", tmp_path)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (99, "99 s"), (150, "2 min"), (5400, "90 min"), (11100, "3 h 05 min")]
)
def test_durations_are_said_as_people_do(seconds, said):
    assert running.duration(seconds) == said


# --- a cluster -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two worker processes, as somebody else may have started them."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster


def test_a_killed_worker_of_a_cluster_costs_no_cell(cluster, traces, out, said):
    spec = ToySpec(str(traces), count=12, pause=0.2)
    victim = next(iter(cluster.workers.values())).pid

    def tell(line):
        said.append(line)
        if len(said) == 3:
            os.kill(victim, signal.SIGKILL)

    path = running.run(TOY, spec, cluster=cluster.scheduler_address, folder=out, tell=tell)
    assert victim not in [worker.pid for worker in cluster.workers.values()]
    pids = set(check(path, spec)["seconds_pid"])
    assert len(pids) >= 2
    assert os.getpid() not in pids
    assert len(said) == spec.count
    assert sum(computed(traces).values()) <= spec.count + 4  # only what the killed one had is done again


def test_a_failing_cell_on_a_cluster_costs_no_other(cluster, traces, out):
    spec = ToySpec(str(traces), trouble="raise")
    with pytest.raises(running.UnfinishedError, match=r"1 of 6 cells of toy failed: number=2"):
        running.run(TOY, spec, cluster=cluster.scheduler_address, folder=out)
    assert len(journal(out)) == 5


def test_a_cell_that_kills_its_workers_is_given_up(cluster, traces, out, said):
    """joblib alone would wait for it forever."""
    cluster.scheduler.allowed_failures, allowed = 0, cluster.scheduler.allowed_failures
    spec = ToySpec(str(traces), trouble="die", where=0, count=1)
    with pytest.raises(running.UnfinishedError, match=r"1 of 1 cells of toy failed: number=0"):
        running.run(TOY, spec, cluster=cluster.scheduler_address, folder=out, tell=said.append)
    cluster.scheduler.allowed_failures = allowed
    assert "KilledWorker" in said[0]


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch, traces, out):
    pytest.importorskip("distributed")
    monkeypatch.setattr(running, "PATIENCE", 0.5)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9"):
        running.run(TOY, ToySpec(str(traces)), cluster="tcp://127.0.0.1:9", folder=out)


def test_workers_without_the_package_are_one_sentence(cluster, traces, out):
    stranger = replace(TOY, measure=type("Elsewhere", (), {"__module__": "not_installed"}))
    with pytest.raises(ValueError, match="need this package, in the same version: No module named 'not_installed'"):
        running.run(stranger, ToySpec(str(traces)), cluster=cluster.scheduler_address, folder=out)


def test_without_dask_the_extra_is_named(monkeypatch, traces, out):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"geodesic-explorer\[cluster\]"):
        running.run(TOY, ToySpec(str(traces)), cluster="tcp://127.0.0.1:9", folder=out)


# --- the paper's experiments, and what is shipped --------------------------------------------------------------------

# The smallest cell of these takes too long for every day, 10 to 60 s: `make results-check` computes it again, too.
LONG = ("convergence", "edge_weights", "digits")


def experiment_of(name: str) -> running.Experiment:
    try:
        return running.load(name)
    except ValueError as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("name", running.NAMES)
def test_every_experiment_is_made_of_values(name):
    experiment = experiment_of(name)
    assert experiment.name == name
    assert experiment.question.endswith("?")
    assert experiment.full != experiment.quick
    for spec in (experiment.full, experiment.quick):
        assert is_dataclass(spec)
        with pytest.raises(AttributeError):
            setattr(spec, fields(spec)[0].name, None)
        cells = [json.dumps(cell, sort_keys=True) for cell in experiment.cells(spec)]
        assert len(set(cells)) == len(cells)
        assert json.dumps(experiment.smallest(spec), sort_keys=True) in cells


def shipped(name: str) -> tuple[running.Experiment, running.Result]:
    if not (running.RESULTS / f"{name}.csv").exists():
        pytest.skip(f"{name} is not shipped")
    return experiment_of(name), running.read(name)


@pytest.mark.parametrize("name", running.NAMES)
def test_what_is_shipped_comes_from_the_full_command(name):
    experiment, result = shipped(name)
    words = result.about["command"].split()
    assert words[:5] == ["python", "-m", "core.experiments", "run", name]
    assert not {"--quick", "--large", "--seeds", "--mnist", "--out"} & {word.split("=")[0] for word in words}
    assert result.about["spec"] == json.loads(json.dumps(asdict(experiment.full)))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result.about["date"])
    assert {"python", *running.VERSIONS} == set(result.about["versions"])
    assert result.about["seconds"] > 0
    assert sum(len(rows_of(result.table, cell)) for cell in experiment.cells(experiment.full)) == len(result.table)


def rows_of(table: pd.DataFrame, cell: dict) -> pd.DataFrame:
    """A cell's rows, without timings and without the columns of other cells."""
    chosen = pd.concat([table[name] == value for name, value in cell.items()], axis=1).all(axis=1)
    rows = table[chosen].reset_index(drop=True)
    return rows[[name for name in rows if not name.startswith(running.SECONDS)]].dropna(axis=1, how="all")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.benchmark if name in LONG else ()) for name in running.NAMES]
)
def test_what_is_shipped_comes_out_again(name, unchecked):
    experiment, result = shipped(name)
    cell = experiment.smallest(experiment.full)
    (entry,) = running.computed(experiment, experiment.full, [cell])
    assert "error" not in entry, entry["traceback"]
    pd.testing.assert_frame_equal(
        rows_of(running.table_of([entry]), cell), rows_of(result.table, cell), check_dtype=False, rtol=1e-6, atol=1e-9
    )


# --- the report ------------------------------------------------------------------------------------------------------

JUDGED = [claim for claim in report.CLAIMS if claim.judge]


def result(table: pd.DataFrame, command: str = "") -> running.Result:
    return running.Result(table, {"date": "", "command": command, "seconds": 0, "versions": {}})


def test_every_experiment_has_claims_and_every_claim_an_experiment():
    assert {claim.experiment for claim in JUDGED} == set(running.NAMES)
    assert all(claim.differs and not claim.experiment for claim in report.CLAIMS if not claim.judge)
    assert len({claim.said for claim in report.CLAIMS}) == len(report.CLAIMS)


def test_without_tables_nothing_is_claimed(tmp_path):
    text = report.write(tmp_path).read_text()
    assert f"{len(JUDGED)} not run yet" in text
    assert "confirmed" not in text
    assert all(f"| {claim.said} | {claim.where} |" in text for claim in report.CLAIMS)


@pytest.mark.parametrize("claim", JUDGED, ids=lambda claim: claim.judge.__name__)
def test_a_table_without_the_columns_is_no_verdict(claim):
    with pytest.raises(ValueError, match=rf"^{claim.experiment}.csv does not have what"):
        report.judged(claim, {claim.experiment: result(pd.DataFrame({"other": [1.0]}))})


def test_grades():
    assert judges.graded([True, True], "")[0] is judges.Verdict.CONFIRMED
    assert judges.graded([True, False], "")[0] is judges.Verdict.IN_PART
    assert judges.graded([False], "")[0] is judges.Verdict.NOT_CONFIRMED
    with pytest.raises(ValueError, match="nothing to judge by"):
        judges.graded([], "")


@pytest.mark.parametrize("power", [0.0, 0.5, 2 / 3])
def test_a_rate_is_the_exponent(power):
    table = pd.DataFrame([{"size": n, "seed": seed, "mean_lpr": 3 * n**-power} for n in (500, 5000) for seed in (0, 1)])
    assert judges.rate(table) == pytest.approx(power)
    early = pd.DataFrame([{"size": 100, "seed": 0, "mean_lpr": 50.0}])
    assert judges.rate(pd.concat([early, table])) == pytest.approx(power)  # a spiral of 100 points is none


def convergence_table(power: float, flow: float, growing: float, fixed: float) -> pd.DataFrame:
    """Mean LPR that fall with these exponents."""
    kinds = [("graphs", "power", "fixed", power)]
    kinds += [("graphs", "true_graph", "growing", growing), ("graphs", "true_graph", "fixed", fixed)]
    kinds += [(group, "flow", "growing", flow) for group in ("flow_fast", "flow_paper")]
    return pd.DataFrame(
        [
            {"dataset": "circle", "group": group, "method": method, "rule": rule, "size": n, "mean_lpr": n**-falls}
            for group, method, rule, falls in kinds
            for n in (500, 1000, 10_000)
        ]
    )


@pytest.mark.parametrize(
    ("judge", "exponents", "verdict"),
    [
        (judges.power_stalls, (0.0, 0.6, 0.6, 0.0), judges.Verdict.CONFIRMED),
        (judges.power_stalls, (0.5, 0.6, 0.6, 0.0), judges.Verdict.NOT_CONFIRMED),
        (judges.truth_converges, (0.0, 0.6, 0.6, 0.6), judges.Verdict.CONFIRMED),
        (judges.truth_converges, (0.0, 0.6, 0.6, 0.0), judges.Verdict.IN_PART),
        (judges.truth_converges, (0.0, 0.6, 0.1, 0.0), judges.Verdict.NOT_CONFIRMED),
        (judges.flow_keeps_up, (0.0, 0.5, 0.6, 0.0), judges.Verdict.CONFIRMED),
        (judges.flow_keeps_up, (0.0, 0.1, 0.6, 0.0), judges.Verdict.NOT_CONFIRMED),
        (judges.power_is_inferior, (0.0, 0.5, 0.6, 0.0), judges.Verdict.CONFIRMED),
        (judges.power_is_inferior, (0.5, 0.5, 0.6, 0.0), judges.Verdict.NOT_CONFIRMED),
    ],
)
def test_verdicts_follow_the_numbers(judge, exponents, verdict):
    assert judge(convergence_table(*exponents))[0] is verdict


@pytest.mark.parametrize(
    ("lpr", "converged", "verdict"),
    [
        ({"flow_score": 0.2, "score": 0.1}, {"flow_score": 0.1, "score": 1.0}, judges.Verdict.CONFIRMED),
        ({"flow_score": 0.1, "score": 0.2}, {"flow_score": 0.1, "score": 1.0}, judges.Verdict.IN_PART),
        ({"flow_score": 0.1, "score": 0.2}, {"flow_score": 1.0, "score": 1.0}, judges.Verdict.NOT_CONFIRMED),
    ],
)
def test_a_flow_score_is_noisy_where_it_relaxes_worse(lpr, converged, verdict):
    lines = [
        {"part": "paths", "dataset": name, "preset": preset, "method": method, "mean_lpr": length, "converged": share}
        for name in ("circle", "spiral")
        for preset in ("fast", "paper")
        for method, length, share in (("flow", 0.3, 1.0), *((m, lpr[m], converged[m]) for m in lpr))
    ]
    found, number = judges.flow_score_is_noisy(pd.DataFrame(lines))
    assert found is verdict
    assert f"paper preset: 0.300 → {lpr['flow_score']:.3f} ({lpr['score']:.3f})" in number


def test_a_rehearsal_is_named_as_such():
    table = convergence_table(0.0, 0.6, 0.6, 0.0)
    assert report.is_rehearsal(result(table, "python -m core.experiments run convergence --quick"))
    assert not report.is_rehearsal(result(table, "python -m core.experiments run convergence"))


def test_the_shipped_report_is_that_of_the_shipped_tables():
    path = running.RESULTS / report.NAME
    if not path.exists():
        pytest.skip("there is no report")
    results = {name: running.read(name) for name in running.NAMES if (running.RESULTS / f"{name}.csv").exists()}
    assert path.read_text() == report.text(results), "make report"
