"""Every shipped weight loads and is what the manifest says; everything damaged is refused with a clear sentence."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from core import checkpoints, datasets, training
from core.flows import Flow
from core.model_files import CheckpointError

SHIPPED = checkpoints.available()
MAX_BYTES = 20e6


@pytest.fixture
def folder(tmp_path, models):
    for model, report, settings in models:
        checkpoints.save(
            model,
            report,
            settings,
            dataset="circle",
            size=100,
            seed=0,
            preset="fast",
            command="a test",
            folder=tmp_path,
        )
    return tmp_path


def test_what_is_saved_comes_back_exactly(folder, models):
    flow, score_model = checkpoints.shipped("circle", 100, 0, "fast", folder)
    x = np.random.default_rng(0).normal(size=(50, 2))
    assert flow.spec == models[0][0].spec
    assert score_model.spec == models[1][0].spec
    np.testing.assert_array_equal(flow.log_density(x), models[0][0].log_density(x))
    for found, expected in zip(score_model.evaluate(x), models[1][0].evaluate(x)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_manifest_says_how_each_model_was_made(folder, models):
    entries = checkpoints.available(folder)
    assert list(entries) == ["circle-100-0-fast-flow", "circle-100-0-fast-score_model"]
    entry = entries["circle-100-0-fast-score_model"]
    assert entry.spec == {**entry.spec, "hidden_layers": 2, "width": 8}
    assert entry.settings["steps"] == [[50, 5], [1000, 5]]
    assert entry.loss == models[1][1].losses[-1][1]
    assert entry.held_out_loss == models[1][1].held_out_losses[-1][1]
    assert entry.command == "a test"
    assert set(entry.versions) == {"torch", "FrEIA", "numpy", "python"}
    assert entries["circle-100-0-fast-flow"].held_out_loss is None


def test_nothing_shipped_is_none(folder):
    assert checkpoints.shipped("circle", 100, 1, "fast", folder) is None
    assert checkpoints.shipped("spiral", 100, 0, "fast", folder) is None


def test_manifest_is_read_without_torch():
    code = "import sys; from core import checkpoints; checkpoints.available(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_weight_loads(name):
    entry, model = SHIPPED[name], checkpoints.load(name)
    points = datasets.load(entry.dataset).density.sample(50, 1)
    assert entry.status == "FINISHED"
    values = model.log_density(points) if isinstance(model, Flow) else model.score(points)
    assert np.isfinite(values).all()


def test_shipped_weights_are_small_and_all_listed():
    files = {path.name for path in checkpoints.FOLDER.glob("*.safetensors")}
    assert files == {entry.file for entry in SHIPPED.values()}
    assert sum(path.stat().st_size for path in checkpoints.FOLDER.iterdir()) < MAX_BYTES


def change_manifest(folder, change):
    path = folder / checkpoints.MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest["models"][0])
    path.write_text(json.dumps(manifest))


def flip_a_byte(folder):
    path = folder / "circle-100-0-fast-flow.safetensors"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def cut_in_half(folder):
    path = folder / "circle-100-0-fast-flow.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_and_rehash(folder):
    import hashlib

    cut_in_half(folder)
    data = (folder / "circle-100-0-fast-flow.safetensors").read_bytes()
    change_manifest(folder, lambda entry: entry.update(sha256=hashlib.sha256(data).hexdigest()))


DAMAGE = {
    "flipped byte": (flip_a_byte, "flow.safetensors is damaged.*restore"),
    "half a file": (cut_in_half, "flow.safetensors is damaged.*restore"),
    "half a file, hash adjusted": (cut_and_rehash, "flow.safetensors does not fit.*restore"),
    "no file": (lambda f: (f / "circle-100-0-fast-flow.safetensors").unlink(), "cannot be read.*restore"),
    "other hash": (lambda f: change_manifest(f, lambda e: e.update(sha256="0" * 64)), "is damaged"),
    "other shape": (lambda f: change_manifest(f, lambda e: e["spec"].update(width=9)), "does not fit"),
    "unknown spec key": (lambda f: change_manifest(f, lambda e: e["spec"].update(depth=9)), "does not fit.*depth"),
    "bad spec value": (lambda f: change_manifest(f, lambda e: e["spec"].update(activation="x")), "does not fit"),
    "text for a number": (lambda f: change_manifest(f, lambda e: e["spec"].update(width="8")), "does not fit"),
    "other kind": (lambda f: change_manifest(f, lambda e: e.update(kind="score_model")), "does not fit"),
    "unknown kind": (lambda f: change_manifest(f, lambda e: e.update(kind="forest")), "unknown kind 'forest'"),
    "unknown key": (lambda f: change_manifest(f, lambda e: e.update(color="red")), "malformed.*color"),
    "missing key": (lambda f: change_manifest(f, lambda e: e.pop("spec")), "malformed.*spec"),
    "no manifest": (lambda f: (f / checkpoints.MANIFEST).unlink(), "manifest.json is missing"),
    "empty manifest": (lambda f: (f / checkpoints.MANIFEST).write_text(""), "is not a manifest"),
    "list manifest": (lambda f: (f / checkpoints.MANIFEST).write_text("[]"), "is not a manifest"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_refused_with_a_clear_sentence(case, folder):
    damage, said = DAMAGE[case]
    damage(folder)
    with pytest.raises(CheckpointError, match=said):
        checkpoints.load("circle-100-0-fast-flow", folder)


def test_wrong_names_are_refused(folder):
    with pytest.raises(CheckpointError, match="no model 'circle'"):
        checkpoints.load("circle", folder)
    with pytest.raises(CheckpointError, match="wanted a flow"):
        checkpoints.load_flow("circle-100-0-fast-score_model", folder)
    with pytest.raises(CheckpointError, match="wanted a score model"):
        checkpoints.load_score_model("circle-100-0-fast-flow", folder)


def test_ship_trains_what_is_missing_and_skips_what_is_there(tmp_path, monkeypatch):
    settings = training.PRESETS["fast"]
    flow, score = (replace(s, steps=((10, 3), (1000, 3))) for s in (settings.flow, settings.score))
    short = training.TrainingSettings(flow, score)
    monkeypatch.setitem(training.PRESETS, "fast", short)
    made = checkpoints.ship("circle", "fast", 50, folder=tmp_path)
    assert [entry.kind for entry in made] == ["flow", "score_model"]
    assert checkpoints.ship("circle", "fast", 50, folder=tmp_path) == []
    other = replace(short, score=replace(short.score, learning_rate=1e-4))
    monkeypatch.setitem(training.PRESETS, "fast", other)
    assert [entry.kind for entry in checkpoints.ship("circle", "fast", 50, folder=tmp_path)] == ["score_model"]
    (tmp_path / made[0].file).unlink()
    assert [entry.kind for entry in checkpoints.ship("circle", "fast", 50, folder=tmp_path)] == ["flow"]


def test_estimated_time_grows_with_size_and_preset():
    fast = [checkpoints.estimated_seconds("fast", size) for size in (200, 1000, 5000, 20_000)]
    assert fast == sorted(fast)
    assert 3 < fast[1] < 15
    assert checkpoints.estimated_seconds("paper", 1000) > 10 * fast[1]
    assert checkpoints.estimated_seconds("fast", 1000, 50) > fast[1]
    assert checkpoints.estimated_seconds("slow", 1000) is None
