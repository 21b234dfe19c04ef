"""What the explorer can show, as frozen specs, and their way into a link and out of it. No Streamlit, no numerics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core import datasets, methods

Point = tuple[float, float]
# An endpoint: a position in the plane, or, where the data have more than two columns, the number of a data point.
Place = Point | int
# Two columns that the plane shows of more than two; empty for principal components.
Axes = tuple[int, int] | tuple[()]

DATASETS = (*datasets.NAMES, *datasets.EXTRA)
SIZES = (200, 500, 1000, 2000, 5000)
LARGEST_SIZE = 10_000
BETAS = (0.0, 0.1, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
FARTHEST = 1e6  # data units: coordinates beyond this are a slip
DEFAULT_METHODS = ("truth", "score", "mixture", "flow", "power")
# Rows and drawing order: the truth first, then from the best to the crudest.
METHOD_ORDER = ("truth", "score", "mixture", "kde", "flow", "true_graph", "power", "straight")
SCALES = ("given", "standard")
OWN = re.compile(r"own-[0-9a-f]{16}")

# Endpoints that show something on each dataset.
ENDPOINTS: dict[str, tuple[Point, Point]] = {
    "standard_normal": ((-1.6, -0.9), (1.2, 1.5)),
    "gaussian_mixture": ((0.9, 0.4), (7.9, 0.4)),
    "circle": ((-0.95, -0.25), (0.9, 0.35)),
    "spiral": ((0.12, 0.22), (0.05, -1.72)),
    "two_spirals": ((0.35, -0.78), (-0.52, 0.68)),
    "banana": ((-1.6, 1.15), (1.5, 0.97)),
    "student_t_ring": ((-1.0, -0.1), (0.9, 0.42)),
    "moons": ((-0.85, 0.5), (1.8, -0.05)),
    "sine_wave": ((-1.5, 0.57), (1.6, -0.76)),
}


@dataclass(frozen=True)
class SceneSpec:
    """Which points, truth and models; small and hashable, so that it is a cache key.

    Attributes:
        dataset: a named dataset, or "own-" and the key of the user's own file.
        size: points that are used.
        seed: of the sample, or of the choice where the user's file holds more points.
        preset: which models.
        columns: of the user's file, as numbers of its columns; empty for named datasets.
        scale: "given", or "standard": each column less its mean, over its standard deviation.
        models: key of models that were trained or loaded here; empty for the shipped ones, or none.
    """

    dataset: str
    size: int
    seed: int
    preset: str
    columns: tuple[int, ...] = ()
    scale: str = "given"
    models: str = ""

    @property
    def own(self) -> bool:
        """Whether these are the user's own points, without a known density."""
        return is_own(self.dataset)

    @property
    def bare(self) -> SceneSpec:
        """The scene without models that were trained or loaded here: what such models are kept under."""
        return replace(self, models="")

    @property
    def points(self) -> SceneSpec:
        """The part that decides which points there are."""
        return replace(self, models="", preset=methods.PRESETS[0])

    @property
    def ground(self) -> SceneSpec:
        """The part that decides what lies under the paths: a known density is the same for every sample."""
        return self.points if self.own else replace(self.points, size=1000, seed=0)


@dataclass(frozen=True)
class ExplorerSpec:
    """Everything that the explorer page shows.

    Attributes:
        scene: points and models.
        beta: inverse temperature.
        methods: names, in the page's order.
        settings: knobs of the methods.
        start, end: endpoints, or None for the scene's default ones.
        axes: two columns (numbers among the scene's) that the plane shows of more than two; empty for principal ones.
    """

    scene: SceneSpec
    beta: float
    methods: tuple[str, ...]
    settings: methods.MethodSettings
    start: Place | None
    end: Place | None
    axes: Axes = ()


def is_own(dataset: str) -> bool:
    """Whether a dataset's name stands for the user's own points."""
    return OWN.fullmatch(dataset) is not None


# --- parameters: how each is read from a link, written to it, and what it is by default -----------------------------


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError
        return number

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = float(text)
        if not low <= number <= high:  # NaN is not, either
            raise ValueError
        return number

    return read


def _beta(text: str) -> float:
    return 0.5 if text.strip().upper() == "1/D" else _number(0.0, 10.0)(text)


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return read


def _dataset(text: str) -> str:
    return text if is_own(text) else _one_of(DATASETS)(text)


def _methods(text: str) -> list[str]:
    wanted = [name for name in text.split(",") if name]
    if not set(wanted) <= set(methods.NAMES):
        raise ValueError
    return [name for name in METHOD_ORDER if name in wanted]


def _columns(text: str) -> list[int]:
    wanted = [_whole(0, 9999)(part) for part in text.split(",") if part]
    if len(set(wanted)) < len(wanted):
        raise ValueError
    return wanted


def _axes(text: str) -> Axes:
    if text == "pca":
        return ()
    i, j = (_whole(0, 9999)(part) for part in text.split(","))
    if i == j:
        raise ValueError
    return i, j


def _place(text: str) -> Place:
    if text.startswith("#"):
        return _whole(0, 10**9)(text[1:])
    x, y = (_number(-FARTHEST, FARTHEST)(part) for part in text.split(","))
    return x, y


@dataclass(frozen=True)
class Parameter:
    """One choice: its name in links and in the session, its default, and its way into and out of a link."""

    name: str
    default: Any
    read: Callable[[str], Any]
    wanted: str
    write: Callable[[Any], str] = str


def _write_place(place: Place) -> str:
    return f"#{place}" if isinstance(place, int) else ",".join(f"{number:.6g}" for number in place)


def _write_numbers(numbers: Any) -> str:
    return ",".join(map(str, numbers))


PARAMETERS = (
    Parameter("dataset", "two_spirals", _dataset, f"one of {', '.join(DATASETS)}"),
    Parameter("size", 1000, _whole(20, LARGEST_SIZE), f"a whole number from 20 to {LARGEST_SIZE}"),
    Parameter("seed", 0, _whole(0, 2**31 - 1), "a whole number >= 0"),
    Parameter("models", "fast", _one_of(methods.PRESETS), f"one of {', '.join(methods.PRESETS)}"),
    Parameter("beta", 1.0, _beta, "a number from 0 to 10, or 1/D", lambda beta: f"{beta:.6g}"),
    Parameter("methods", list(DEFAULT_METHODS), _methods, f"some of {', '.join(methods.NAMES)}", ",".join),
    Parameter("k", 20, _whole(2, 100), "a whole number from 2 to 100"),
    Parameter("S", 10, _whole(1, 50), "a whole number from 1 to 50"),
    Parameter("d", 2.0, _number(0.1, 50.0), "a number from 0.1 to 50", lambda d: f"{d:.6g}"),
    Parameter("T", 200, _whole(20, 1000), "a whole number from 20 to 1000"),
    Parameter("columns", [], _columns, "different whole numbers, i,j,...", _write_numbers),
    Parameter("scale", "given", _one_of(SCALES), f"one of {', '.join(SCALES)}"),
    Parameter("axes", (), _axes, "pca, or two different columns, i,j", _write_numbers),
    Parameter("start", None, _place, "two numbers, x,y, or a data point, #i", _write_place),
    Parameter("end", None, _place, "two numbers, x,y, or a data point, #i", _write_place),
)


def read_url(params: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Link parameters -> a value for every choice, and a sentence for each parameter that could not be used.

    What is missing or unusable takes its default; endpoints take their dataset's, None for the user's own points.
    """
    values: dict[str, Any] = {}
    complaints = []
    for parameter in PARAMETERS:
        values[parameter.name] = parameter.default
        if parameter.name in params:
            try:
                values[parameter.name] = parameter.read(params[parameter.name])
            except ValueError:
                shown = params[parameter.name][:40]
                complaints.append(f"`{parameter.name}` should be {parameter.wanted}; the link says “{shown}”.")
    known = {parameter.name for parameter in PARAMETERS}
    complaints += [
        f"The link has a parameter `{name[:40]}` that means nothing here." for name in params if name not in known
    ]
    for name, place in zip(("start", "end"), default_endpoints(values["dataset"])):
        if isinstance(values[name], int) and not is_own(values["dataset"]):
            complaints.append(f"`{name}` should be two numbers, x,y; data points have numbers in your own data only.")
            values[name] = None
        values[name] = place if values[name] is None else values[name]
    return values, complaints


def write_url(values: Mapping[str, Any]) -> dict[str, str]:
    """The shortest set of link parameters that `read_url` turns into these values."""
    start, end = default_endpoints(values["dataset"])
    defaults = {parameter.name: parameter.default for parameter in PARAMETERS} | {"start": start, "end": end}
    return {
        p.name: p.write(values[p.name])
        for p in PARAMETERS
        if values[p.name] != defaults[p.name] and values[p.name] is not None
    }


def default_endpoints(dataset: str) -> tuple[Place | None, Place | None]:
    """Endpoints that show something; None where only the points themselves could say."""
    return ENDPOINTS.get(dataset, (None, None))


# --- presets: each teaches one thing --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preset:
    """A picture with a lesson: a title, one sentence, and the link parameters that make it."""

    title: str
    lesson: str
    query: dict[str, str]


PRESETS = (
    Preset(
        "Follow the data",
        "The straight line crosses the empty gap and pays for it; the geodesic walks both arms.",
        {"dataset": "two_spirals", "methods": "truth,mixture,straight"},
    ),
    Preset(
        "Power weights wander",
        "Even on one Gaussian the power graph is longer than a straight line: its densities are too rough.",
        {"dataset": "standard_normal", "methods": "truth,power,straight"},
    ),
    Preset(
        "Density is the bottleneck",
        "The same graph with the true density is nearly right. What power weights lack is a density, not a graph.",
        {"dataset": "gaussian_mixture", "methods": "truth,true_graph,flow,power"},
    ),
    Preset(
        "Relaxation smooths",
        "The score-relaxed path starts as the flow's jagged graph path and ends next to the truth.",
        {"dataset": "circle", "methods": "truth,score,flow"},
    ),
    Preset(
        "Which way around?",
        "Two ways of nearly equal length: move A or B a little and the geodesic jumps to the other side.",
        {"dataset": "circle", "methods": "truth,mixture,flow", "start": "-1,0.02", "end": "1,-0.06"},
    ),
    Preset(
        "β near 0: almost Euclid",
        "With β = 0.1 the density hardly matters, and every method agrees.",
        {"dataset": "spiral", "beta": "0.1", "methods": "truth,score,mixture,flow,power"},
    ),
    Preset(
        "β = 3: ridges rule",
        "A high β makes the path climb to the ridge of the density at once and stay there.",
        {"dataset": "gaussian_mixture", "beta": "3", "methods": "truth,score,mixture,flow"},
    ),
    Preset(
        "The paper's recipe on spirals",
        "With the paper's hyperparameters the flow blurs the arms and sliced score matching hardly learns them.",
        {"dataset": "two_spirals", "models": "paper", "methods": "truth,score,mixture,flow"},
    ),
)
