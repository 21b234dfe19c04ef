"""Models as one file: what was packed comes back, and whatever else is brought is refused before it costs anything."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from core import checkpoints, flows, model_files, scores
from core.flows import FlowSpec
from core.model_files import CheckpointError
from core.scores import ScoreSpec


@pytest.fixture(scope="module")
def packed(models):
    """A file of the small flow and score model."""
    about = {"preset": "fast", "seed": 3, "models": {"flow": {"losses": [[5, 1.5]]}}}
    return model_files.pack(models[0][0], models[1][0], about)


def test_a_file_brings_back_the_same_numbers(packed, models):
    flow, score_model = models[0][0], models[1][0]
    found = model_files.unpack(packed)
    x = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_array_equal(found.flow.log_density(x), flow.log_density(x))
    np.testing.assert_array_equal(found.score_model.score(x), score_model.score(x))
    assert (found.flow.spec, found.score_model.spec) == (flow.spec, score_model.spec)
    assert (found.about["preset"], found.about["seed"], found.about["dim"]) == ("fast", 3, 2)
    assert found.about["models"]["flow"]["losses"] == [[5, 1.5]]
    assert found.about == model_files.describe(packed)
    assert model_files.pack(found.flow, found.score_model, found.about) == packed


def test_two_files_merge_into_the_file_of_both_without_torch(tmp_path, packed, models):
    about = {"preset": "fast", "seed": 3}
    flow = model_files.pack(models[0][0], None, about | {"models": {"flow": {"losses": [[5, 1.5]]}}})
    score_model = model_files.pack(None, models[1][0], about)
    assert model_files.unpack(flow).score_model is None
    assert model_files.unpack(score_model).flow is None
    (tmp_path / "flow").write_bytes(flow)
    (tmp_path / "score").write_bytes(score_model)
    code = (
        "import sys; from pathlib import Path; from core import checkpoints, model_files; "
        "data = model_files.merge(Path('flow').read_bytes(), Path('score').read_bytes()); "
        "model_files.describe(data); checkpoints.estimated_seconds('fast', 1000); "
        "assert 'torch' not in sys.modules; Path('both').write_bytes(data)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert (tmp_path / "both").read_bytes() == packed
    with pytest.raises(CheckpointError, match="not the flow and the score model of one training"):
        model_files.merge(flow, flow)
    with pytest.raises(CheckpointError, match="not the flow and the score model of one training"):
        model_files.merge(flow, model_files.pack(None, models[1][0], about | {"seed": 4}))


def test_a_file_needs_a_model(models):
    with pytest.raises(ValueError, match="wanted a flow"):
        model_files.pack(None, None, {})


def test_cut_or_changed_files_are_refused(packed):
    header = 8 + int.from_bytes(packed[:8], "little")
    damaged = [packed[:end] for end in range(0, len(packed), 100)]
    for place in [*range(0, header, 5), *range(header, len(packed), 97)]:
        changed = bytearray(packed)
        changed[place] ^= 1 << place % 8
        damaged.append(bytes(changed))
    for data in damaged:
        with pytest.raises(CheckpointError, match=r"The file .*(bring|train the models again)"):
            model_files.unpack(data)


def of_another_format(data):
    from safetensors.numpy import load, save

    return save(load(data), {model_files.METADATA: json.dumps({"format": "another", "about": {}})})


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
    "too large": (lambda data: bytes(model_files.MAX_FILE + 1), "more than models need"),
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
        model_files.unpack(make(packed))


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
def test_a_forged_file_is_refused_before_anything_large_is_built(case, packed, monkeypatch):
    arrays, about = model_files._parse(packed)
    arrays = {name: value.copy() for name, value in arrays.items()}
    FORGED[case](about, arrays)
    data = model_files._file(arrays, about)
    built = 0

    def counted(width_in, width_out, *rest):
        nonlocal built
        built += width_in * width_out
        assert built <= len(packed), "a network larger than the file"
        return linear(width_in, width_out, *rest)

    linear = flows.linear
    monkeypatch.setattr(flows, "linear", counted)
    monkeypatch.setattr(scores, "linear", counted)
    with pytest.raises(CheckpointError, match="The file"):
        model_files.unpack(data)


@pytest.mark.parametrize("depth", [100, 900, 990, 1000, 1500, 100_000])
def test_deep_json_is_refused(packed, depth):
    from safetensors.numpy import save

    arrays, _ = model_files._parse(packed)
    deep = f'{{"format": "{model_files.FORMAT}", "version": 1, "about": {"[" * depth}{"]" * depth}}}'
    with pytest.raises(CheckpointError, match=r"not one of the explorer's models|damaged"):
        model_files.unpack(save(arrays, {model_files.METADATA: deep}))


@pytest.mark.parametrize("preset", ["fast", "paper"])
@pytest.mark.parametrize("dim", [2, 3, 50])
def test_the_presets_fit_the_limits(preset, dim):
    from dataclasses import asdict

    for of in (FlowSpec, ScoreSpec):
        spec = getattr(of, preset)(dim)
        assert model_files._spec(of, json.loads(json.dumps(asdict(spec)))) == spec
        assert 4 * model_files._weights_of(spec) < model_files.MAX_FILE / 4


def test_fingerprints_tell_points_apart():
    points = np.arange(12.0).reshape(6, 2)
    assert model_files.fingerprint(points) == model_files.fingerprint(np.asfortranarray(points))
    others = [points[::-1], points.reshape(3, 4), points + 1e-12]
    assert len({model_files.fingerprint(x) for x in (points, *others)}) == 4
