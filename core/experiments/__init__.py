"""The paper's experiments, and what came out: one file each, from a frozen spec to a tidy table.

`python -m core.experiments list` names them, `run NAME` makes `assets/results/NAME.csv`.
"""
