"""Text into columns of numbers: which characters, which delimiter, which decimal sign, header or none.

`core.tables` calls `read_text` for whatever is in no binary format, and chooses among the columns itself.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from jaxtyping import Float

MAX_POINTS = 100_000
MAX_COLUMNS = 50
MAX_WIDTH = 10_000  # columns in a file, used or not: the work for each is felt beyond
MAX_LINES = 10 * MAX_POINTS  # quoted cells may span lines; beyond, short lines would fill the memory
MAX_NAME = 60
HUGE = 1e100  # beyond, products of a few values leave the range of float64
SAMPLE = 300  # lines by which a delimiter is judged
WHITESPACE = " "
DELIMITERS = ("\t", ";", ",", "|", WHITESPACE)  # of equally good ones the first wins
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "."})

Convention = Literal["decimal dot", "decimal comma", "comma thousands"]

# The ways to write a number; a group's name is what that way tells about the decimal sign.
_NUMBER = re.compile(
    r"""[+-]?(?:
      (?P<dot_thousands>[1-9]\d{0,2}(?:\.\d{3})+,\d+)
    | (?P<dot_groups>[1-9]\d{0,2}(?:\.\d{3}){2,})
    | (?P<comma_thousands>[1-9]\d{0,2}(?:,\d{3})+\.\d+ | [1-9]\d{0,2}(?:,\d{3}){2,})
    | (?P<either_comma>[1-9]\d{0,2},\d{3})
    | (?P<either_dot>[1-9]\d{0,2}\.\d{3})
    | (?P<comma>\d*,\d+)
    | (?P<dot>\d+\.\d*|\.\d+)
    | (?P<whole>\d+)
    )(?:e[+-]?\d+)? | [+-]?(?P<infinite>inf(?:inity)?)""",
    re.VERBOSE | re.IGNORECASE,
)
_SEPARATOR_LINE = re.compile(r'"?sep=([\t;,| ])"?\s*', re.IGNORECASE)  # Excel's first line


class Refused(Exception):  # noqa: N818 (it is no error yet: `read_points` puts the name of the file before it)
    """Why a file is not read: the rest of a sentence that begins with the name of the file."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a file.

    Attributes:
        name: unique in the file.
        values: nan where a cell is missing or broken, ±inf where it is infinite or beyond HUGE.
        missing: how many cells are empty or say that they are.
        broken: how many other cells are no numbers.
    """

    name: str
    values: Float[np.ndarray, " N"]
    missing: int = 0
    broken: int = 0

    @property
    def finite(self) -> np.ndarray:
        """Which cells are numbers, `(N,)` bool."""
        return np.isfinite(self.values)

    @property
    def is_empty(self) -> bool:
        """Whether no cell says anything."""
        return self.missing == len(self.values)

    @property
    def is_numbers(self) -> bool:
        """Whether at least half of the cells that say something are finite numbers."""
        return not self.is_empty and 2 * int(self.finite.sum()) >= len(self.values) - self.missing


@dataclass(frozen=True, eq=False)
class Table:
    """What a file holds: columns of one length, and a sentence for each thing that was done to read them."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()


def counted(number: int, noun: str) -> str:
    """The number and its noun: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clean_name(raw: str) -> str:
    """The name in one printable line of at most MAX_NAME characters."""
    return "".join(c for c in " ".join(raw.split()) if c.isprintable())[:MAX_NAME].strip()


def unique_names(raw: Iterable[str]) -> tuple[str, ...]:
    """Names fit to be shown and told apart: "column 2" where there is none, "x (2)" for a second x."""
    uses: Counter[str] = Counter()
    names: dict[str, None] = {}
    for position, given in enumerate(raw, start=1):
        base = name = clean_name(given) or f"column {position}"
        while name in names:
            uses[base] += 1
            name = f"{base} ({uses[base] + 1})"
        names[name] = None
    return tuple(names)


def without_huge(values: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """The values with ±inf for those beyond HUGE."""
    return np.where(np.abs(values) > HUGE, np.copysign(np.inf, values), values)


def read_text(data: bytes) -> Table:
    """All columns of a delimited text.

    Raises:
        Refused: if the bytes are no text, the text no table, or its numbers can be read in two ways.
    """
    text, notes = _decoded(data)
    _refuse_documents(text)
    comment, lines, delimiter = _split_lines(text, notes)
    if delimiter is None:
        delimiter = _best_delimiter(lines)
    rows = _even_rows(lines, delimiter, notes)
    convention = _convention(rows)
    if convention == "decimal comma":
        notes.append("Numbers were read with decimal commas: 1,5 as one and a half.")
    elif convention == "comma thousands":
        notes.append("Commas in numbers were read as thousands separators.")
    return Table(_columns(rows, convention, _names_in(comment, delimiter)), tuple(notes))


def _decoded(data: bytes) -> tuple[str, list[str]]:
    """The characters of the text and what is to be said about them."""
    notes = []
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            text = data.decode("utf-16")
        else:
            text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError as problem:
            raise Refused("is neither a known file of numbers nor text. Save it as CSV in UTF-8.") from problem
        notes.append("The text is not UTF-8 and was read as Windows-1252.")
    if "\0" in text:
        raise Refused("holds zero bytes, so it is not text, or UTF-16 without its mark. Save it as CSV in UTF-8.")
    return text, notes


def _refuse_documents(text: str) -> None:
    ends = text.lstrip()[:1] + text.rstrip()[-1:]
    if re.match(r"\s*<[a-z!?]", text, re.IGNORECASE):
        raise Refused("is HTML or XML. Save or copy the table alone, as CSV.")
    if ends in ("{}", "[]"):
        raise Refused("is JSON. Save the numbers as a table, for example as CSV.")


def _split_lines(text: str, notes: list[str]) -> tuple[str, list[str], str | None]:
    """The last comment before the data, the lines of the data, and the delimiter where a first line names it."""
    filled = (line for line in io.StringIO(text, newline=None) if not line.isspace())
    lines = list(islice(filled, MAX_LINES + 1))
    if len(lines) > MAX_LINES:
        raise Refused(f"has more than {MAX_LINES:,} lines; at most {MAX_POINTS:,} rows are read. Thin it out.")
    named = _SEPARATOR_LINE.fullmatch(lines[0]) if lines else None
    lines = lines[1:] if named else lines
    is_comment = [line.lstrip(" ").startswith("#") for line in lines]
    first = is_comment.index(False) if not all(is_comment) else len(lines)
    data = [line for line, skip in zip(lines[first:], is_comment[first:]) if not skip]
    if not data:
        raise Refused("holds no rows of numbers.")
    if len(data) < len(lines) - first:
        notes.append(f"Skipped {counted(len(lines) - first - len(data), 'comment line')} between the rows.")
    return lines[first - 1].lstrip(" #") if first else "", data, named[1] if named else None


def _cells(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The rows of the text; csv.Error where quotation marks do not fit."""
    if delimiter == WHITESPACE:
        lines = (" ".join(line.split()) for line in lines)
    return csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=delimiter != "\t")


def _best_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that makes the first lines most evenly wide and most numeric."""
    scores = {delimiter: _score(lines, delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: scores[delimiter])
    if scores[best] == (-1, -1):
        raise Refused('has a cell whose quotation marks (") do not fit, in one of its first rows. Mend or remove it.')
    if scores[best] == (0, 0):
        raise Refused("has only one column; at least two are needed, separated by commas, semicolons, tabs or spaces.")
    return best


def _score(lines: Sequence[str], delimiter: str) -> tuple[float, float]:
    """How well a delimiter splits the first lines: evenness times share of numbers, then evenness alone."""
    try:
        rows = list(islice(_cells(lines, delimiter), SAMPLE))
    except csv.Error:
        return -1, -1
    width, number_of = Counter(map(len, rows)).most_common(1)[0]
    if width < 2:
        return 0, 0
    # The first cells of a row are enough, and a row of millions would cost seconds.
    cells = [cell.strip() for row in rows if len(row) == width for cell in row[:MAX_COLUMNS]]
    said = [cell for cell in cells if cell.lower() not in MISSING]
    evenness = number_of / len(rows)
    return evenness * sum(map(bool, map(_NUMBER.fullmatch, said))) / max(len(said), 1), evenness


def _even_rows(lines: Sequence[str], delimiter: str, notes: list[str]) -> list[list[str]]:
    """The rows that are as wide as most are."""
    try:
        rows = list(islice(_cells(lines, delimiter), 2 * MAX_POINTS))
    except csv.Error as problem:
        raise Refused(f'has a cell whose quotation marks (") do not fit ({problem}). Mend or remove it.') from problem
    if len(rows) == 2 * MAX_POINTS:
        raise Refused(f"has more than {MAX_POINTS:,} rows; at most {MAX_POINTS:,} are read. Thin it out.")
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if width < 2:
        raise Refused("has only one column; at least two are needed, separated by commas, semicolons, tabs or spaces.")
    if width > MAX_WIDTH:
        raise Refused(f"has {width:,} columns; at most {MAX_WIDTH:,} are looked at. Leave some out.")
    if 2 <= len(rows[0]) == width - 1 and not any(map(_NUMBER.fullmatch, map(str.strip, rows[0]))):
        # A header may lack a name for the row names before it (R) or for the nothing behind a last delimiter.
        trailing = not any(row[-1].strip() for row in rows if len(row) == width)
        rows[0] = [*rows[0], ""] if trailing else ["", *rows[0]]
    even = [row for row in rows if len(row) == width]
    uneven = len(rows) - len(even)
    if 2 * uneven > len(rows):
        raise Refused(f"is no even table: of {counted(len(rows), 'row')}, {uneven:,} are not {width} cells wide.")
    if uneven:
        notes.append(f"Dropped {counted(uneven, 'row')} with another number of cells than {width}.")
    return even


def _convention(rows: Sequence[Sequence[str]]) -> Convention:
    """What commas and dots mean in the numbers of the file, or a refusal where that is open."""
    if not any("," in cell or cell.count(".") > 1 for row in rows for cell in row):
        return "decimal dot"
    kinds: set[str | None] = set()
    for column in zip(*rows):
        counts = Counter(cell.strip() for cell in column)
        said = {cell: count for cell, count in counts.items() if cell.lower() not in MISSING}
        found = {cell: match.lastgroup for cell in said if (match := _NUMBER.fullmatch(cell))}
        if 2 * sum(said[cell] for cell in found) >= sum(said.values()):
            kinds.update(found.values())
    comma, dot = kinds & {"comma", "dot_thousands"}, kinds & {"dot", "comma_thousands"}
    # Beside 1,5 a 1.234 may be either too, unless the file has dots between thousands elsewhere.
    if comma and (dot or ("either_dot" in kinds and not kinds & {"dot_thousands", "dot_groups"})):
        raise Refused("has numbers with decimal commas and numbers with decimal points. Write all of them in one way.")
    if comma or ("dot_groups" in kinds and not dot):
        return "decimal comma"
    if "either_comma" in kinds and not dot:
        raise Refused(
            "has numbers like 1,234, where the comma may stand between thousands or before decimals. "
            "Write them with decimal points and nothing between thousands."
        )
    return "comma thousands" if kinds & {"comma_thousands", "either_comma"} else "decimal dot"


def _value(cell: str, convention: Convention) -> float:
    """The number in a cell, or nan."""
    match = _NUMBER.fullmatch(cell.strip())
    if match is None:
        return np.nan
    written = match[0]
    if convention == "decimal comma":
        written = written.replace(".", "").replace(",", ".")
    elif convention == "comma thousands":
        written = written.replace(",", "")
    return np.nan if "," in written or written.count(".") > 1 else float(written)


def _column(cells: Sequence[str], convention: Convention) -> Column:
    # Most columns are read by float alone, which is much faster; but it would take 1_000 for a number.
    text = "".join(cells)
    if "_" not in text and ("." if convention == "decimal comma" else ",") not in text:
        try:
            values = np.array([float(cell.replace(",", ".")) for cell in cells])
            return Column("", without_huge(values), missing=int(np.isnan(values).sum()))
        except ValueError:
            pass
    known = {cell: _value(cell, convention) for cell in set(cells)}
    values = np.array([known[cell] for cell in cells])
    missing = sum(cell.strip().lower() in MISSING for cell in cells)
    return Column("", without_huge(values), missing, broken=int(np.isnan(values).sum()) - missing)


def _columns(rows: Sequence[Sequence[str]], convention: Convention, commented: Sequence[str]) -> tuple[Column, ...]:
    """The columns, named by the first row if it is a header, else by the comment before the data."""
    if len(rows) < 2:
        raise Refused("holds no rows of numbers below its first row.")
    first = [_column([cell], convention) for cell in rows[0]]
    columns = [_column(cells, convention) for cells in zip(*rows[1:])]
    raw = rows[0]
    if not any(a.broken and b.is_numbers for a, b in zip(first, columns)) and not _counts_columns(rows[0], columns):
        raw = commented if len(commented) == len(first) else [""] * len(first)
        columns = [
            Column("", np.r_[a.values, b.values], a.missing + b.missing, a.broken + b.broken)
            for a, b in zip(first, columns)
        ]
    if len(columns[0].values) > MAX_POINTS:
        raise Refused(f"has {len(columns[0].values):,} rows; at most {MAX_POINTS:,} are read. Thin it out.")
    # An empty column without a name is what stands behind a last delimiter.
    return tuple(
        Column(name, column.values, column.missing, column.broken)
        for name, given, column in zip(unique_names(raw), raw, columns)
        if given.strip() or not column.is_empty
    )


def _counts_columns(row: Sequence[str], columns: Sequence[Column]) -> bool:
    """Whether the row is pandas's header for unnamed columns: 0, 1, ... over numbers that are not all whole."""
    index = int(not row[0].strip())
    if [cell.strip() for cell in row[index:]] != [str(position) for position in range(len(row) - index)]:
        return False
    return any(bool((c.values[c.finite] % 1 != 0).any()) for c in columns[index:])


def _names_in(comment: str, delimiter: str) -> list[str]:
    """The cells of a comment, unless all are numbers: then it is a row that was left out."""
    try:
        names = next(_cells([comment], delimiter), [])
    except csv.Error:
        return []
    return [] if all(map(_NUMBER.fullmatch, map(str.strip, names))) else names
