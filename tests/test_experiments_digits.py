"""Digits: what the models, the paths between images and the table must be, on trainings of a second or two."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core.experiments import digit_models, digits, journal
from core.geodesics import Status
from core.model_files import CheckpointError

TINY = digit_models.Spec(seeds=2, epochs=2, pairs=1, neighbors=8, segments=3)


@pytest.fixture(scope="module")
def models():
    return digit_models.train(replace(TINY, epochs=25, pairs=2), seed=0)


@pytest.fixture
def few_classes(monkeypatch):
    monkeypatch.setattr(digits, "CLASSES", 3)


def fetched(shape: tuple[int, int], size: int = 320):
    """What openml.org would send, with images of any size."""
    rng = np.random.default_rng(0)
    return SimpleNamespace(data=rng.integers(0, 256, (size, np.prod(shape))), target=np.arange(size).astype(str))


# --- images and models ----------------------------------------------------------------------------------------------


def test_the_bundled_digits():
    images, labels = digit_models.load_images()
    assert images.shape == (1797, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert set(labels) == set(range(10))


@pytest.mark.parametrize("seed", [0, 1])
def test_every_image_is_either_trained_on_or_held_out(seed):
    trained, held = digit_models.split(1797, 0.2, seed)
    assert np.array_equal(np.sort(np.concatenate([trained, held])), np.arange(1797))
    assert len(held) == 359
    assert np.array_equal(held, digit_models.split(1797, 0.2, seed)[1])


def test_the_same_seed_trains_the_same_models_and_another_seed_others():
    first, again, other = (digit_models.train(TINY, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.codes, again.codes)
    for model in ("flow", "score_model"):
        evaluate = "log_density" if model == "flow" else "score"
        values = [getattr(getattr(m, model), evaluate)(first.codes[:50]) for m in (first, again, other)]
        assert np.array_equal(values[0], values[1])
        assert not np.allclose(values[0], values[2])


def test_training_makes_every_model_better(models):
    begun = digit_models.quality(digit_models.train(TINY, seed=0))
    trained = digit_models.quality(models)
    assert set(trained) == set(begun)
    assert all(trained[name] < begun[name] for name in trained)
    # The codes' axes depend on each other, which a flow that learned nothing does not know.
    assert trained["held_out_nll_per_dim"] < 0.5 * np.log(2 * np.pi * np.e)


def test_the_affine_flow_inverts_itself_and_knows_its_volume(models):
    z = torch.randn(20, 10, generator=torch.Generator().manual_seed(0))
    latent, log_det = models.flow.net(z)
    back, _ = models.flow.net(latent, rev=True)
    assert torch.allclose(back, z, atol=1e-4)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: models.flow.net(row[None])[0][0]))(z)
    assert torch.allclose(torch.linalg.slogdet(jacobian)[1], log_det, atol=1e-4)
    assert not torch.allclose(latent, z)


def test_the_score_models_jacobian_is_its_derivative(models):
    x, step = models.codes[:5], 1e-5
    score, jacobian = models.score_model.evaluate(x)
    assert np.allclose(score, models.score_model.score(x))
    for axis in range(10):
        move = step * np.eye(10)[axis]
        central = (models.score_model.score(x + move) - models.score_model.score(x - move)) / (2 * step)
        assert np.allclose(jacobian[:, :, axis], central, rtol=1e-5, atol=1e-6)


# --- paths ----------------------------------------------------------------------------------------------------------


def test_a_geodesic_joins_two_images(models):
    found = digits.geodesic(models, 3, 800, beta=0.1)
    assert found.status is Status.CONVERGED
    for path in (found.path, found.straight):
        assert path.shape == (digits.STEPS + 1, 10)
    for path in (found.path, found.straight, found.graph_path):
        assert np.array_equal(path[0], models.codes[3])
        assert np.array_equal(path[-1], models.codes[800])
    assert found.log_length < found.graph_log_length


def test_the_frames_begin_and_end_with_the_two_images(models):
    frames = digits.decode_path(models, digits.geodesic(models, 3, 800, beta=0.1).path)
    assert frames.shape == (digits.STEPS + 1, 8, 8)
    assert frames.min() >= 0
    assert frames.max() <= 1
    for row, frame in ((3, frames[0]), (800, frames[-1])):
        mine, others = np.abs(frame - models.images[row]).mean(), np.abs(frame - models.images).mean(axis=(1, 2))
        assert mine < np.quantile(others, 0.05)


def test_the_way_back_is_as_long(models):
    there, back = (digits.geodesic(models, *ends, beta=0.1) for ends in ((3, 800), (800, 3)))
    assert there.log_length == pytest.approx(back.log_length, abs=1e-4)
    assert there.graph_log_length == pytest.approx(back.graph_log_length, abs=1e-4)
    assert np.allclose(there.path, back.path[::-1], atol=1e-4)


def test_without_density_the_straight_line_is_the_geodesic(models):
    found = digits.geodesic(models, 3, 800, beta=0)
    assert np.array_equal(found.path, found.straight)
    assert found.log_length == pytest.approx(np.log(np.linalg.norm(models.codes[3] - models.codes[800])))


def test_a_relaxed_path_that_is_clearly_longer_is_refused(models, monkeypatch):
    detour = SimpleNamespace(path=np.tile(models.codes[3], (3, 1)) + 50 * np.eye(3, 10), converged=True)
    monkeypatch.setattr(digits.geodesics, "relax", lambda *_: detour)
    found = digits.geodesic(models, 3, 800, beta=0.1)
    assert found.status is Status.NOT_SHORTER
    assert found.path.shape == found.straight.shape
    assert found.log_length == pytest.approx(found.graph_log_length, abs=0.2)  # its corners are cut


NO_PAIRS = {"i should": (-1, 3, 0.1), "j should": (3, 1797, 0.1), "different": (3, 3, 0.1), "beta should": (3, 4, -1)}


@pytest.mark.parametrize("said", NO_PAIRS)
def test_what_is_no_pair_of_images(models, said):
    i, j, beta = NO_PAIRS[said]
    with pytest.raises(ValueError, match=said):
        digits.geodesic(models, i, j, beta)


# --- the table ------------------------------------------------------------------------------------------------------


def test_the_rows_of_a_cell(few_classes):
    assert digits.cells(TINY) == [{"seed": 0}, {"seed": 1}]
    rows = digits.measure(TINY, {"seed": 1})
    kinds = [row["kind"] for row in rows]
    methods = len(digits.METHODS)
    assert {kind: kinds.count(kind) for kind in ("distance", "intra", "inter", "difference", "quality")} == {
        "distance": 9 * methods,
        "intra": 3 * methods,
        "inter": 3 * methods,
        "difference": 3 * methods,
        "quality": 4,
    }
    assert sum(row["value"] for row in rows if row["kind"] == "status") == 9
    again = digits.measure(TINY, {"seed": 1})
    assert json.dumps(journal.plain(rows)) == json.dumps(journal.plain(again))


def test_the_same_digit_is_closer(models, few_classes):
    distances, statuses = digits.log_distances(models)
    assert statuses == {"CONVERGED": 18}
    rows = list(digits._distance_rows(distances))
    for method in digits.METHODS:
        means = {row["kind"]: [] for row in rows}
        for row in rows:
            if row["method"] == method:
                means[row["kind"]].append(row["mean_log_distance"])
        assert np.allclose(means["difference"], np.subtract(means["inter"], means["intra"]))
        assert np.mean(means["difference"]) > 0.3
    relaxed, graph = (np.array([v for key, v in distances.items() if key[2] == m]) for m in ("relaxed", "graph"))
    assert (relaxed < graph + 0.02).all()


def test_the_euclidean_rows_are_distances_from_class_means(models, few_classes):
    distances, _ = digits.log_distances(models)
    trained, held = models.rows
    of_class = trained[models.labels[trained] == 2]
    mean = models.codes[of_class].mean(axis=0)
    images = models.codes[held[models.labels[held] == 1]]
    possible = np.log(np.linalg.norm(images - mean, axis=1))
    values = distances[2, 1, "euclidean"]
    assert len(set(values)) == 2
    assert np.isin(values, possible).all()


# --- MNIST ----------------------------------------------------------------------------------------------------------


def test_mnist_without_a_network(monkeypatch):
    def fetch(*_, **__):
        raise OSError("Name or service not known")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(ValueError, match=r"mnist: cannot be fetched.*Name or service not known"):
        digits.measure(replace(TINY, mnist=True), {"seed": 0})


def test_larger_images_only_make_larger_layers(monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: fetched((28, 28)))
    models = digit_models.train(replace(TINY, mnist=True), seed=0)
    assert models.images.shape == (320, 28, 28)
    assert 0 <= models.images.min() < models.images.max() <= 1
    assert models.codes.shape == (320, 10)
    found = digits.geodesic(models, 0, 9, beta=0.1)
    assert digits.decode_path(models, found.path).shape == (digits.STEPS + 1, 28, 28)


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_file_brings_back_the_models(models, tmp_path):
    path = tmp_path / "new" / "models.safetensors"
    digit_models.save(models, path)
    loaded = digit_models.load(path)
    assert (loaded.spec, loaded.seed) == (models.spec, models.seed)
    assert np.array_equal(loaded.codes, models.codes)
    assert np.array_equal(loaded.flow.log_density(models.codes), models.flow.log_density(models.codes))
    assert np.array_equal(loaded.score_model.score(models.codes), models.score_model.score(models.codes))
    first = path.read_bytes()
    digit_models.save(loaded, path)
    assert path.read_bytes() == first


def test_a_file_that_cannot_be_used(models, tmp_path):
    path = tmp_path / "models.safetensors"
    with pytest.raises(CheckpointError, match=r"cannot be read.*python -m core.experiments.digits weights"):
        digit_models.load(path)
    digit_models.save(models, path)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    other = (digit_models.WEIGHTS.parent.parent / "weights" / "banana-1000-0-fast-flow.safetensors").read_bytes()
    newer = whole.replace(b'\\"version\\": 1', b'\\"version\\": 2')
    assert newer != whole
    for data in (b"", b"no model", whole[:-10], bytes(damaged), other, newer):
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"cannot be used.*python -m core.experiments.digits weights"):
            digit_models.load(path)


def test_the_command_that_makes_the_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(digits, "FULL", TINY)
    path = tmp_path / "models.safetensors"
    assert digits.main(["weights", "--out", str(path)]) == 0
    assert "held_out_nll_per_dim" in capsys.readouterr().out
    assert digit_models.load(path).spec == TINY


def test_the_shipped_file():
    assert digit_models.WEIGHTS.stat().st_size < 2 * 1024**2
    shipped = digit_models.load()
    assert (shipped.spec, shipped.seed) == (digits.FULL, 0)
    said = digit_models.quality(shipped)
    assert said["held_out_reconstruction_error"] < 0.1
    assert said["held_out_nll_per_dim"] < 1.0
