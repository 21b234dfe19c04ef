"""Every shipped weight loads and is what the manifest says; everything damaged is refused with a clear sentence."""

import json
import pickle
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from core import checkpoints, datasets, densities, training
from core.checkpoints import CheckpointError
from core.flows import Flow, FlowSpec
from core.scores import ScoreSpec

SHIPPED = checkpoints.available()
MAX_BYTES = 20e6


@pytest.fixture(scope="module")
def models():
    """A small flow and score model with their reports and settings."""
    points = densities.standard_normal(2).sample(100, 0)
    settings = [replace(s, steps=((50, 5), (1000, 5))) for s in (training.PRESETS["paper"].flow,
                                                                  training.PRESETS["fast"].score)]  # fmt: skip
    flow, flow_report = training.train_flow(
        points, spec=FlowSpec(2, blocks=2, width=8, batch_norm=True), settings=settings[0]
    )
    model, report = training.train_score(points, spec=ScoreSpec(2, 2, 8), settings=settings[1], held_out=points)
    return (flow, flow_report, settings[0]), (model, report, settings[1])


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


# --- models as one file ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(models):
    """A file of the small flow and score model."""
    about = {"preset": "fast", "seed": 3, "models": {"flow": {"losses": [[5, 1.5]]}}}
    return checkpoints.pack(models[0][0], models[1][0], about)


def test_a_file_brings_back_the_same_numbers(packed, models):
    flow, score_model = models[0][0], models[1][0]
    found = checkpoints.unpack(packed)
    x = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_array_equal(found.flow.log_density(x), flow.log_density(x))
    np.testing.assert_array_equal(found.score_model.score(x), score_model.score(x))
    assert (found.flow.spec, found.score_model.spec) == (flow.spec, score_model.spec)
    assert (found.about["preset"], found.about["seed"], found.about["dim"]) == ("fast", 3, 2)
    assert found.about["models"]["flow"]["losses"] == [[5, 1.5]]
    assert found.about == checkpoints.describe(packed)
    assert checkpoints.pack(found.flow, found.score_model, found.about) == packed


def test_two_files_merge_into_the_file_of_both_without_torch(tmp_path, packed, models):
    about = {"preset": "fast", "seed": 3}
    flow = checkpoints.pack(models[0][0], None, about | {"models": {"flow": {"losses": [[5, 1.5]]}}})
    score_model = checkpoints.pack(None, models[1][0], about)
    assert checkpoints.unpack(flow).score_model is None
    assert checkpoints.unpack(score_model).flow is None
    (tmp_path / "flow").write_bytes(flow)
    (tmp_path / "score").write_bytes(score_model)
    code = (
        "import sys; from pathlib import Path; from core import checkpoints; "
        "data = checkpoints.merge(Path('flow').read_bytes(), Path('score').read_bytes()); "
        "checkpoints.describe(data); checkpoints.estimated_seconds('fast', 1000); "
        "assert 'torch' not in sys.modules; Path('both').write_bytes(data)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert (tmp_path / "both").read_bytes() == packed
    with pytest.raises(CheckpointError, match="not the flow and the score model of one training"):
        checkpoints.merge(flow, flow)
    with pytest.raises(CheckpointError, match="not the flow and the score model of one training"):
        checkpoints.merge(flow, checkpoints.pack(None, models[1][0], about | {"seed": 4}))


def test_a_file_needs_a_model(models):
    with pytest.raises(ValueError, match="wanted a flow"):
        checkpoints.pack(None, None, {})


def test_cut_or_changed_files_are_refused(packed):
    header = 8 + int.from_bytes(packed[:8], "little")
    damaged = [packed[:end] for end in range(0, len(packed), 100)]
    for place in [*range(0, header, 5), *range(header, len(packed), 97)]:
        changed = bytearray(packed)
        changed[place] ^= 1 << place % 8
        damaged.append(bytes(changed))
    for data in damaged:
        with pytest.raises(CheckpointError, match=r"The file .*(bring|train the models again)"):
            checkpoints.unpack(data)


def of_another_format(data):
    from safetensors.numpy import load, save

    return save(load(data), {checkpoints.METADATA: json.dumps({"format": "another", "about": {}})})


def without_description(data):
    from safetensors.numpy import load, save

    return save(load(data))


def of_the_next_version(data):
    return data.replace(b'\\"version\\": 1', b'\\"version\\": 2')


def with_pickle(data):
    return pickle.dumps({"weights": [1.0, 2.0]})


STRANGE = {
    "empty": (lambda data: b"", "not a safetensors file"),
    "text": (lambda data: b"x,y\n1,2\n" * 100, "not a safetensors file"),
    "pickle": (with_pickle, "not a safetensors file"),
    "too large": (lambda data: bytes(checkpoints.MAX_FILE + 1), "more than models need"),
    "other format": (of_another_format, "not one of the explorer's models"),
    "no description": (without_description, "not one of the explorer's models"),
    "next version": (of_the_next_version, "version 2 of the format"),
    "weights of the manifest": (
        lambda data: (checkpoints.FOLDER / "circle-200-0-fast-flow.safetensors").read_bytes(),
        "not one of the explorer's models",
    ),
}


@pytest.mark.parametrize("case", STRANGE)
def test_other_files_are_refused(case, packed):
    make, said = STRANGE[case]
    with pytest.raises(CheckpointError, match=said):
        checkpoints.unpack(make(packed))


FORGED = {
    "wide": lambda about, arrays: about["models"]["flow"]["spec"].update(width=10**9),
    "wide within the limits": lambda about, arrays: about["models"]["flow"]["spec"].update(width=1024),
    "many blocks": lambda about, arrays: about["models"]["flow"]["spec"].update(blocks=10**7),
    "deep": lambda about, arrays: about["models"]["score_model"]["spec"].update(hidden_layers=10**7),
    "many bins": lambda about, arrays: about["models"]["flow"]["spec"].update(bins=10**9),
    "many dimensions": lambda about, arrays: about["models"]["score_model"]["spec"].update(dim=10**6),
    "negative": lambda about, arrays: about["models"]["score_model"]["spec"].update(width=-8),
    "true for one": lambda about, arrays: about["models"]["flow"]["spec"].update(blocks=True),
    "no number": lambda about, arrays: about["models"]["flow"]["spec"].update(domain_clamp=float("nan")),
    "endless": lambda about, arrays: about["models"]["flow"]["spec"].update(input_gain=float("inf")),
    "text": lambda about, arrays: about["models"]["flow"]["spec"].update(width="8"),
    "list for a name": lambda about, arrays: about["models"]["flow"]["spec"].update(activation=["silu"]),
    "list for a spec": lambda about, arrays: about["models"]["flow"].update(spec=[2, 2]),
    "list for a model": lambda about, arrays: about["models"].update(flow=[]),
    "unknown key": lambda about, arrays: about["models"]["flow"]["spec"].update(depth=9),
    "missing key": lambda about, arrays: about["models"]["flow"]["spec"].pop("dim"),
    "unknown model": lambda about, arrays: about["models"].update(forest={"spec": {}}),
    "model without weights": lambda about, arrays: [arrays.pop(k) for k in list(arrays) if k.startswith("flow")],
    "weights without model": lambda about, arrays: about["models"].pop("flow"),
    "no models": lambda about, arrays: about.update(models={}),
    "other dimension": lambda about, arrays: about.update(dim=3),
    "list for the dimension": lambda about, arrays: about.update(dim=[2]),
    "no dimension": lambda about, arrays: about.pop("dim"),
    "odd array": lambda about, arrays: arrays.update(more=np.zeros(3)),
    "odd weight": lambda about, arrays: arrays.update({"flow.more": np.zeros(3)}),
    "NaN weights": lambda about, arrays: arrays["flow.net.module_list.1.subnets.0.last.weight"].fill(np.nan),
    "infinite weights": lambda about, arrays: arrays["score_model.net.last.bias"].fill(np.inf),
    "huge weights": lambda about, arrays: arrays["flow.net.module_list.0.scale"].fill(3e38),
    "zero scale": lambda about, arrays: arrays["flow.scale"].fill(0.0),
    "long scale": lambda about, arrays: arrays.update({"flow.scale": np.ones(3)}),
    "no mean": lambda about, arrays: arrays.pop("flow.mean"),
    "no weight": lambda about, arrays: arrays.pop("score_model.net.last.bias"),
    "weight as bytes": lambda about, arrays: arrays.update({"score_model.net.last.bias": np.zeros(2, np.uint8)}),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_file_is_refused_before_anything_large_is_built(case, packed):
    arrays, about = checkpoints._parse(packed)
    arrays = {name: value.copy() for name, value in arrays.items()}
    FORGED[case](about, arrays)
    data = checkpoints._file(arrays, about)
    began = time.perf_counter()
    with pytest.raises(CheckpointError, match="The file"):
        checkpoints.unpack(data)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("depth", [100, 900, 990, 1000, 1500, 100_000])
def test_deep_json_is_refused(packed, depth):
    from safetensors.numpy import save

    arrays, _ = checkpoints._parse(packed)
    deep = f'{{"format": "{checkpoints.FORMAT}", "version": 1, "about": {"[" * depth}{"]" * depth}}}'
    with pytest.raises(CheckpointError, match=r"not one of the explorer's models|damaged"):
        checkpoints.unpack(save(arrays, {checkpoints.METADATA: deep}))


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("dim", [2, 3, 50])
def test_the_presets_fit_the_limits(preset, dim):
    from dataclasses import asdict

    for of in (FlowSpec, ScoreSpec):
        spec = getattr(of, preset)(dim)
        assert checkpoints._spec(of, json.loads(json.dumps(asdict(spec)))) == spec
        assert 4 * checkpoints._weights_of(spec) < checkpoints.MAX_FILE / 4


def test_estimated_time_grows_with_size_and_preset():
    fast = [checkpoints.estimated_seconds("fast", size) for size in (200, 1000, 5000, 20_000)]
    assert fast == sorted(fast)
    assert 3 < fast[1] < 15
    assert checkpoints.estimated_seconds("paper", 1000) > 10 * fast[1]
    assert checkpoints.estimated_seconds("fast", 1000, 50) > fast[1]
    assert checkpoints.estimated_seconds("slow", 1000) is None


def test_fingerprints_tell_points_apart():
    points = np.arange(12.0).reshape(6, 2)
    assert checkpoints.fingerprint(points) == checkpoints.fingerprint(np.asfortranarray(points))
    others = [points[::-1], points.reshape(3, 4), points + 1e-12]
    assert len({checkpoints.fingerprint(x) for x in (points, *others)}) == 4
