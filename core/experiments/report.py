"""What the tables say of the paper: every claim of its experiments, a verdict and the number behind it.

A claim is judged by a function of a table, see `core.experiments.judges`; nobody edits a verdict by hand.
`python -m core.experiments report` writes `REPORT.md` beside the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from core.experiments import judges, running
from core.experiments.judges import Judgment, Verdict
from core.experiments.running import Result

NAME = "REPORT.md"
COMMAND = "python -m core.experiments report"


@dataclass(frozen=True)
class Claim:
    """Something that the paper says came out of an experiment.

    Attributes:
        said: the claim, in our words.
        where: in the paper.
        experiment: whose table judges it; "" for none, which makes it not testable.
        judge: table -> verdict and a sentence with the number.
        differs: where we differ from the paper, and why; for a claim without experiment, why there is none.
    """

    said: str
    where: str
    experiment: str = ""
    judge: Callable[[pd.DataFrame], Judgment] | None = None
    differs: str = ""


def judged(claim: Claim, results: Mapping[str, Result]) -> Judgment:
    """Verdict and number of a claim.

    Raises:
        ValueError: if the table lacks what the claim is judged by.
    """
    if claim.judge is None:
        return Verdict.NOT_TESTABLE, claim.differs
    if claim.experiment not in results:
        return Verdict.NOT_RUN, f"`python -m core.experiments run {claim.experiment}` has not been run"
    try:
        return claim.judge(results[claim.experiment].table)
    except (KeyError, IndexError, ValueError) as problem:
        raise ValueError(
            f"{claim.experiment}.csv does not have what {claim.said!r} is judged by: {problem!r}"
        ) from problem


# --- the claims -------------------------------------------------------------------------------------------------------

OUR_K = (
    "The paper does not print its k. With a fixed k no graph path converges, whatever its density, since its zigzag "
    "stays; so we have a second rule, by which k grows like n^(1/3)."
)
OUR_N = "A smaller sample than the paper's 200,000, fewer pairs and fewer steps of training; the table's head has them."
OUR_DIGITS = (
    "The 1797 digits of 8x8 pixels that scikit-learn brings along, not MNIST (`--mnist` takes that, where there is a "
    "network). β is not printed in the paper; 0.1 is the 1/D that it recommends."
)

# In the order of the paper.
CLAIMS = (
    Claim(
        "Geodesics, and paths over a graph with a learned density, follow the data instead of the straight line.",
        "Fig. 1",
        "convergence",
        judges.follows_data,
        "The figure shows one pair; the number is for many.",
    ),
    Claim(
        "At β = 1 geodesics of the standard normal bend more and more sharply toward the origin as D grows.",
        "Fig. 2 left, section 2.2",
        "dimensions",
        judges.bends,
    ),
    Claim(
        "At β = 1/D they have the same shape in every dimension.",
        "Fig. 2 right, section 2.2",
        "dimensions",
        judges.same_shape,
    ),
    Claim(
        "At β = 1/D geodesics are nearly straight and lengths moderate, which is numerically stabler.",
        "abstract, section 2.2",
        "dimensions",
        judges.straighter,
    ),
    Claim(
        "At constant metric speed steps are of different sizes, at constant Euclidean speed of one.",
        "Fig. 3, section 2.3",
        "parameterization",
        judges.uneven_steps,
    ),
    Claim(
        "The discrete path at constant metric speed is slightly longer, by about 0.1 %.",
        "Fig. 3",
        "parameterization",
        judges.slightly_longer,
        "The paper prints neither its number of points nor its pair; the number is a mean over pairs.",
    ),
    Claim(
        "At constant metric speed the Euclidean velocity rises where the density drops.",
        "section 2.3",
        "parameterization",
        judges.speed_where_thin,
        "‖γ̇‖ p^(-β) is constant, so ‖γ̇‖ is proportional to p^β: it is the other way round.",
    ),
    Claim(
        "The equation is easier to solve at constant Euclidean speed.",
        "section 2.3",
        "parameterization",
        judges.stabler,
    ),
    Claim(
        "Power-weighted paths are the roughest of all.",
        "Figs. 4 and 5",
        "methods_on_200_points",
        judges.power_is_roughest,
    ),
    Claim(
        "A graph with a model density gives more direct paths, not quite as close as with the true density.",
        "Fig. 5",
        "methods_on_200_points",
        judges.model_graph_between,
    ),
    Claim(
        "Relaxing with the model's score comes very close to the true geodesic.",
        "Fig. 5",
        "methods_on_200_points",
        judges.relaxed_is_close,
    ),
    Claim(
        "The random order of updates avoids oscillation and speeds up convergence.",
        "section 3.1",
        "parameterization",
        judges.random_order_helps,
        "Judged with the true score, from a graph's path; everywhere else we solve the same equations by a Newton-type "
        "method, in which nothing is updated in turn.",
    ),
    Claim(
        "Starting relaxation from a graph's path avoids local minima and converges faster.",
        "section 3.3",
        "parameterization",
        judges.graph_first,
        "Judged with the true density and score; the paper's sentence is about learned ones.",
    ),
    Claim(
        "Power-weighted paths improve extremely slowly with the sample size, on every dataset.",
        "Fig. 6, section 4.1.1, abstract",
        "convergence",
        judges.power_stalls,
    ),
    Claim(
        "Paths over a graph weighed by the true density converge to the geodesic.",
        "Fig. 6, section 4.1.2",
        "convergence",
        judges.truth_converges,
        OUR_K,
    ),
    Claim(
        "With a learned flow they converge at nearly the same rate as with the true density.",
        "Fig. 6, section 4.1.3",
        "convergence",
        judges.flow_keeps_up,
        "The paper's recipe for flows is trained up to n = 1000 only; the fast preset is ours.",
    ),
    Claim(
        "The power-weighted graph converges at a far inferior rate.",
        "Fig. 6",
        "convergence",
        judges.power_is_inferior,
    ),
    Claim(
        "Other edge weights from the nearest-neighbor density do as poorly as power weights.",
        "Fig. 10, section 4.1.2, appendix C.2",
        "edge_weights",
        judges.nearest_neighbor_rules_stall,
    ),
    Claim(
        "The same weights from the true density converge quickly.",
        "Fig. 10, section 4.1.2, appendix C.2",
        "edge_weights",
        judges.true_rules_converge,
        OUR_K,
    ),
    Claim(
        "The density estimate is the bottleneck, not the graph.",
        "section 4.1.2, conclusion",
        "edge_weights",
        judges.density_is_the_bottleneck,
    ),
    Claim(
        "Relaxation with a learned score refines the graph's paths (in the plane).",
        "abstract, section 3.3",
        "convergence",
        judges.relaxation_refines,
        "Our score model learns by denoising and is guarded: the paper's sliced score matching does not learn spirals.",
    ),
    Claim(
        "All graph methods degrade rapidly as D grows, at β = 1 and at β = 1/D.",
        "Fig. 7, section 4.2.1",
        "dimensions",
        judges.graphs_degrade,
        OUR_N,
    ),
    Claim(
        "Relaxation with a learned score keeps working in high dimensions.",
        "Fig. 7, section 4.2.2",
        "dimensions",
        judges.relaxation_lasts,
        OUR_N,
    ),
    Claim(
        "It does so more reliably at β = 1/D than at β = 1.",
        "Fig. 7, section 4.2.2",
        "dimensions",
        judges.scaled_is_reliable,
    ),
    Claim(
        "The score that one gets by differentiating a flow is too noisy to relax with.",
        "sections 2.6, 3.3, 4.2.2",
        "flow_scores",
        judges.flow_score_is_noisy,
        "The paper shows no numbers for it; ours are of flows and score models in the plane, n = 1000.",
    ),
    Claim(
        "For generalized Gaussians exp(−‖x‖^α/α), β = 1/D keeps the shape of geodesics between typical points.",
        "appendix A.3",
        "alpha_scaling",
        judges.gaussians_collapse,
    ),
    Claim("No other rule for β does.", "appendix A.3", "alpha_scaling", judges.nothing_else_does),
    Claim(
        "For Student's t, β = 1/D does so approximately.",
        "appendix A.3",
        "alpha_scaling",
        judges.student_collapses,
        "For D much larger than ν curves tend to a limit again, but to another one than the normal's.",
    ),
    Claim(
        "MNIST: images are closer to the mean of their own digit than to others, by a safe margin.",
        "Table 1, section 4.3",
        "digits",
        judges.own_class_is_nearer,
        OUR_DIGITS,
    ),
    Claim("MNIST: 1s cluster most tightly.", "Table 1, appendix C.1", "digits", judges.ones_are_tight, OUR_DIGITS),
    Claim(
        "MNIST: 8s are the most ambiguous.", "Table 1, appendix C.1", "digits", judges.eights_are_ambiguous, OUR_DIGITS
    ),
    Claim("MNIST: an 8 easily becomes a 3, 5, 6 or 9.", "appendix C.1", "digits", judges.eights_are_near, OUR_DIGITS),
    Claim(
        "MNIST: the log distances of Table 1.",
        "Table 1",
        differs="Their scale is that of one autoencoder's latent space, which the paper does not print: scaling it by "
        "c adds 2 log c.",
    ),
    Claim(
        "MNIST: geodesics pass through digits that can be read, by reasonable transitions.",
        "Fig. 9, section 4.3",
        differs="A matter for eyes: the page draws such geodesics.",
    ),
    Claim(
        "The kernel bandwidth that is best for the log density is smaller than the one that is best for the score.",
        "Fig. 11, appendix C.3",
        "kde_tradeoff",
        judges.bandwidths_differ,
        "The paper does not say what it integrates over; over the line both errors are infinite. We weigh by the "
        "density, and take the interval [-3, 3].",
    ),
    Claim(
        "At the former the score is noisy, at the latter the log density oversmoothed.",
        "Fig. 12, appendix C.3",
        "kde_tradeoff",
        judges.one_spoils_the_other,
    ),
    Claim(
        "The same trade-off holds for every estimator, flows included, and is why score models win.",
        "appendix C.3, section 2.6",
        differs="A speculation, as the paper says; no experiment of it.",
    ),
)


# --- the file ---------------------------------------------------------------------------------------------------------


def write(folder: Path = running.RESULTS) -> Path:
    """Judge every claim by the tables in a folder; returns where the report is.

    Raises:
        ValueError: if a table is damaged or lacks a column.
    """
    results = {name: running.read(name, folder) for name in running.NAMES if (folder / f"{name}.csv").exists()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(text(results))
    return path


def text(results: Mapping[str, Result]) -> str:
    """The report in Markdown."""
    verdicts = [judged(claim, results) for claim in CLAIMS]
    counts = Counter(verdict for verdict, _ in verdicts)
    lines = [
        "# What came out of the paper's experiments",
        "",
        f"Made by `{COMMAND}` from the tables beside it; thresholds are in `core/experiments/judges.py`.",
        "LPR is the log path ratio: how much longer than the geodesic a path is, in nats.",
        "Models of the paper preset are trained by the paper's recipe, those of the fast preset by ours.",
        "",
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]) + ".",
        "",
        *_table(
            ("Claim", "In the paper", "Verdict", "Number", "Table"),
            [
                (claim.said, claim.where, f"**{verdict}**", number, claim.experiment and f"`{claim.experiment}`")
                for claim, (verdict, number) in zip(CLAIMS, verdicts)
            ],
        ),
        "",
        "## Where we differ, and why",
        "",
    ]
    differences: dict[str, list[str]] = {}
    for claim in CLAIMS:
        if claim.judge and claim.differs:
            differences.setdefault(claim.differs, []).append(claim.said)
    lines += [f"- {' / '.join(said)} — {differs}" for differs, said in differences.items()]
    lines += ["", "## The tables", ""]
    lines += _table(
        ("Table", "Date", "Command", "Computing time", "Versions"),
        [
            (
                f"`{name}.csv`",
                result.about["date"],
                f"`{result.about['command']}`",
                running.duration(result.about["seconds"]) + (", a rehearsal" if is_rehearsal(result) else ""),
                ", ".join(f"{of} {version}" for of, version in result.about["versions"].items()),
            )
            for name, result in results.items()
        ],
    )
    return "\n".join([*lines, ""])


def is_rehearsal(result: Result) -> bool:
    """Whether a table comes from a quick command, so that its numbers mean little."""
    return "--quick" in result.about["command"].split()


def _table(header: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    columns = list(header)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in body]
    return [f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *cells]]
