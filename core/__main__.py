"""`python -m core paths ...`: the methods from a shell, for scripts and screenshots."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from core import datasets, methods, paths
from core.projections import Scaling


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(prog="python -m core", description="Shortest paths that the data suggests.")
    commands = top.add_subparsers(dest="command", required=True)
    command = commands.add_parser("paths", help="compare the methods between two points")
    command.add_argument(
        "--dataset", default="two_spirals", help=f"one of {', '.join((*datasets.NAMES, *datasets.EXTRA))}"
    )
    command.add_argument("--points", type=Path, metavar="FILE", help="your own points instead: CSV, NPY, Parquet, ...")
    command.add_argument("--columns", help="comma-separated columns of the file (default: all numbers)")
    command.add_argument("--standardize", action="store_true", help="scale each column of the file; A and B, too")
    command.add_argument("--size", type=int, default=1000, help="sample size n (default 1000)")
    command.add_argument("--seed", type=int, default=0, help="sample seed (default 0, that of the shipped models)")
    command.add_argument("--preset", default="fast", help=f"models: {' or '.join(methods.PRESETS)}")
    command.add_argument("--start", type=point, required=True, metavar="X,Y")
    command.add_argument("--end", type=point, required=True, metavar="X,Y")
    command.add_argument("--beta", default="1", help="inverse temperature, a number >= 0 or 1/D (default 1)")
    command.add_argument("--methods", default=",".join(methods.NAMES), help="comma-separated names (default all)")
    command.add_argument("--json", action="store_true", help="print everything, paths included, as JSON")
    return top


def point(text: str) -> np.ndarray:
    """Two comma-separated numbers."""
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise argparse.ArgumentTypeError(f"should be comma-separated numbers such as 0.1,-0.2; got {text!r}") from None


SceneAndEnds = tuple[methods.Scene, np.ndarray, np.ndarray]


def named_scene(chosen: argparse.Namespace) -> SceneAndEnds:
    """A dataset's sample with its truth and shipped models."""
    return methods.Scene.load(chosen.dataset, chosen.size, chosen.seed, chosen.preset), chosen.start, chosen.end


def own_scene(chosen: argparse.Namespace) -> SceneAndEnds:
    """Points from a file; they and the endpoints are scaled where that is asked for."""
    try:
        data = chosen.points.read_bytes()
    except OSError as problem:
        raise ValueError(f"{chosen.points} cannot be read: {problem.strerror}") from None
    columns = chosen.columns.split(",") if chosen.columns else None
    points = datasets.read_points(data, chosen.points.name, columns).points
    dim = points.shape[1]
    for name in ("start", "end"):
        if len(getattr(chosen, name)) != dim:
            raise ValueError(f"--{name} should be {dim} numbers, one a column; got {len(getattr(chosen, name))}")
    scaling = Scaling.standard(points) if chosen.standardize else Scaling.none(dim)
    scene = methods.Scene.from_points(scaling.apply(points), chosen.points.name)
    return scene, scaling.apply(chosen.start), scaling.apply(chosen.end)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 for success, 2 with one clear sentence on stderr for bad input."""
    # "--start -0.1,0.2" would be taken for an option; gluing the value on keeps it a value.
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("--start", "--end"):
        if name in words[:-1]:
            at = words.index(name)
            words[at : at + 2] = [f"{name}={words[at + 1]}"]
    chosen = parser().parse_args(words)
    try:
        scene, start, end = own_scene(chosen) if chosen.points else named_scene(chosen)
        beta = 1 / scene.dim if chosen.beta.upper() == "1/D" else paths.check_beta(chosen.beta)
        reports = methods.compare(scene, start, end, beta, chosen.methods.split(","))
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps({"dataset": scene.name, "beta": beta, "reports": [r.as_json() for r in reports]}))
        return 0
    print(f"{'method':12}{'LPR':>9}{'longer':>10}{'log length':>13}{'ms':>8}  status")
    for r in reports:
        if len(r.path) == 0:
            print(f"{r.method:12}{'–':>9}{'–':>10}{'–':>13}{'–':>8}  {r.status}")
            continue
        longer = f"{100 * r.longer:.1f} %" if r.lpr < 5 else f"e^{r.lpr:.1f}"
        print(f"{r.method:12}{r.lpr:9.4f}{longer:>10}{r.log_length:13.4f}{1e3 * r.seconds:8.1f}  {r.status}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
