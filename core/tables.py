"""A file of numbers, as someone uploads or pastes it, into points; or one sentence that says why not.

Text goes through `core.text_tables`; NumPy and Parquet files are read here, never by unpickling. Formats are told apart
by their first bytes, and sizes are read from headers before memory is spent on what they promise.
"""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from jaxtyping import Float

from core.mixtures import MIN_POINTS
from core.text_tables import (
    MAX_COLUMNS,
    MAX_POINTS,
    MAX_WIDTH,
    Column,
    Refused,
    Table,
    clean_name,
    counted,
    read_text,
    unique_names,
    without_huge,
)

MAX_BYTES = 20 * 2**20
MAX_UNPACKED = 16 * MAX_BYTES  # of a compressed file
MAX_CELLS = MAX_BYTES  # a text of MAX_BYTES has no more, and float64 makes 160 MB of them
FLAT = 1e-12  # a spread below this share of the largest value is rounding
MAX_LABELS = 20  # whole numbers with no more different values may stand for classes
NAMES_IN_NOTE = 8
# What numpy, zipfile and pyarrow raise at the contents of a damaged, truncated or encrypted file.
DAMAGE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, SyntaxError, EOFError, OSError, MemoryError, RuntimeError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)

EXPORT = "Save the numbers as CSV, NPY or Parquet."
FOREIGN = (
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook. Save the sheet as CSV."),
    (b"%PDF", f"is a PDF. {EXPORT}"),
    (b"\x89PNG", f"is a PNG image. {EXPORT}"),
    (b"\xff\xd8\xff", f"is a JPEG image. {EXPORT}"),
    (b"\x1f\x8b", "is compressed with gzip. Unpack it first."),
    (b"\x89HDF", f"is an HDF5 file. {EXPORT}"),
    (b"ARROW1", "is an Arrow file. Save the numbers as Parquet or CSV."),
    (b"MATLAB 5", f"is a MATLAB file. {EXPORT}"),
    (b"SQLite format 3", f"is an SQLite database. {EXPORT}"),
    *(
        (b"\x80" + bytes([protocol]), f"is a Python pickle, which is never loaded. {EXPORT}")
        for protocol in range(2, 6)
    ),
)


@dataclass(frozen=True, eq=False)
class Upload:
    """The points of a file.

    Attributes:
        points: `(N, D)` float64, finite, no two rows alike, in the order of the file.
        columns: names of the D columns.
        notes: one sentence for each thing that was done to the file.
        choices: every column of numbers that can be used, in the order of the file.
        suggested: the columns that measure something: no row numbers and no labels, if there are others. A picker
            begins with the first two.
    """

    points: Float[np.ndarray, "N D"]
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    choices: tuple[str, ...]
    suggested: tuple[str, ...]


def read_points(data: bytes, name: str, columns: Sequence[str] | None = None) -> Upload:
    """The points in a file: delimited text, NPY, NPZ with one array, or Parquet.

    Args:
        data: the bytes of the file.
        name: of the file; it appears in messages and decides nothing.
        columns: names of the columns to use, in this order. None: all columns of numbers, but for those that are
            mostly empty, MAX_COLUMNS at most.

    Raises:
        ValueError: whatever the bytes are, one or two sentences that name the file, what is wrong and what to do.
    """
    try:
        return _choose(_read(data), columns)
    except Refused as problem:
        raise ValueError(f"{clean_name(name) or 'The file'} {problem}") from problem


def _read(data: bytes) -> Table:
    if len(data) > MAX_BYTES:
        raise Refused(f"is larger than {MAX_BYTES // 2**20} MB. Thin it out.")
    if not data.strip():
        raise Refused("is empty.")
    for magic, sentence in FOREIGN:
        if data.startswith(magic):
            raise Refused(sentence)
    if data.startswith(b"\x93NUMPY"):
        return _read_npy(data)
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _read_zip(data)
    if data.startswith(b"PAR1"):
        return _read_parquet(data)
    return read_text(data)


def _check_size(rows: int, width: int) -> None:
    if rows < 1 or width < 1:
        raise Refused("holds no rows of numbers.")
    if rows > MAX_POINTS:
        raise Refused(f"has {rows:,} rows; at most {MAX_POINTS:,} are read. Thin it out.")
    if width > MAX_WIDTH or rows * width > MAX_CELLS:
        raise Refused(
            f"has {counted(width, 'column')} of {counted(rows, 'row')}, which is too much. Leave columns out."
        )


def _numeric(name: str, values: np.ndarray) -> Column:
    with np.errstate(over="ignore", invalid="ignore"):  # long doubles, signaling nans
        column = without_huge(values.astype(np.float64))
    return Column(name, column, missing=int(np.isnan(column).sum()))


def _without_numbers(names: Sequence[str]) -> list[str]:
    """The note about columns that hold no numbers, if there are any."""
    return [f"Columns without numbers were ignored: {_listed(names)}."] if names else []


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_IN_NOTE
    return ", ".join(names[:NAMES_IN_NOTE]) + (f" and {more:,} more" if more > 0 else "")


def _read_npy(data: bytes) -> Table:
    damaged = "is a damaged NPY file. Save it again with numpy.save."
    try:
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        # Version 3 differs from 2 in the encoding of field names alone, which numpy.load reads again below.
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(stream)
        _check_array(shape, dtype)
        if math.prod(shape) * dtype.itemsize > len(data) - stream.tell():
            raise Refused(damaged)
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except DAMAGE as problem:
        raise Refused(damaged) from problem
    if array.dtype.names is None:
        names = unique_names([""] * array.shape[1])
        return Table(tuple(_numeric(n, array[:, j]) for j, n in enumerate(names)))
    fields = dict(zip(unique_names(array.dtype.names), array.dtype.names))
    kinds = {name: array.dtype[field].kind for name, field in fields.items()}
    numeric = tuple(_numeric(name, array[field]) for name, field in fields.items() if kinds[name] in "biuf")
    return Table(numeric, tuple(_without_numbers([name for name in fields if kinds[name] not in "biuf"])))


def _check_array(shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse, by the header alone, an array that is no table of real numbers."""
    if dtype.hasobject:
        raise Refused("holds Python objects, which are never loaded. Save an array of numbers.")
    kinds = {dtype.kind} if dtype.names is None else {dtype[field].kind for field in dtype.names}
    if "c" in kinds:
        raise Refused("holds complex numbers. Save real and imaginary parts as two columns.")
    if not kinds & set("biuf"):
        raise Refused("holds an array of something else than numbers. Save an array of numbers.")
    if dtype.names is None and len(shape) != 2:
        raise Refused(f"holds a {len(shape)}-D array; it should be 2-D, with one row per point.")
    if dtype.names is not None and len(shape) != 1:
        raise Refused(f"holds a {len(shape)}-D array of records; it should be 1-D, with one record per point.")
    _check_size(shape[0], len(dtype.names) if dtype.names is not None else shape[1])


def _read_zip(data: bytes) -> Table:
    damaged = "is a damaged ZIP or NPZ file. Save it again."
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            names = [member.filename for member in members]
            if any(name.startswith("xl/") for name in names):
                raise Refused("is an Excel workbook. Save the sheet as CSV.")
            if "mimetype" in names:
                raise Refused("is an OpenDocument file. Save the sheet as CSV.")
            if not names or not all(name.endswith(".npy") for name in names):
                raise Refused("is a ZIP archive. Unpack it and load one of its files.")
            if len(names) > 1:
                raise Refused(f"holds {len(names):,} arrays; save one of them alone, with numpy.save.")
            # numpy writes these two; the others of zipfile unpack without a bound.
            if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise Refused("is packed in a way that numpy never uses. Save it again with numpy.savez_compressed.")
            if members[0].file_size > MAX_UNPACKED:
                raise Refused(f"unpacks to more than {MAX_UNPACKED // 2**20} MB. Thin it out.")
            with archive.open(members[0]) as member:
                unpacked = member.read(members[0].file_size)  # with a size, no more is unpacked than promised
    except DAMAGE as problem:
        raise Refused(damaged) from problem
    if not unpacked.startswith(b"\x93NUMPY"):
        raise Refused(damaged)
    return _read_npy(unpacked)


def _read_parquet(data: bytes) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def is_numeric(kind: pa.DataType) -> bool:
        of = pa.types
        return of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind) or of.is_decimal(kind)

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        groups = [file.metadata.row_group(position) for position in range(file.metadata.num_row_groups)]
        if sum(group.total_byte_size for group in groups) > MAX_UNPACKED:
            raise Refused(f"unpacks to more than {MAX_UNPACKED // 2**20} MB. Thin it out.")
        schema = file.schema_arrow
        _check_size(file.metadata.num_rows, len(schema))
        chosen = [field.name for field in schema if is_numeric(field.type)]
        table = file.read(columns=chosen, use_threads=False)
        table.validate(full=True)
        _check_size(table.num_rows, len(schema))
        numeric = [column for column in table.columns if is_numeric(column.type)]
        arrays = [column.cast(pa.float64(), safe=False).to_numpy() for column in numeric]
    except (*DAMAGE, pa.ArrowException) as problem:
        raise Refused("is a damaged Parquet file, or of a kind that pyarrow cannot read. Save it again.") from problem
    names = unique_names(schema.names)
    kinds = [is_numeric(field.type) for field in schema]
    others = [name for name, numbers in zip(names, kinds) if not numbers]
    return Table(tuple(map(_numeric, compress(names, kinds), arrays)), tuple(_without_numbers(others)))


def _choose(table: Table, asked: Sequence[str] | None) -> Upload:
    """Choose the columns, then drop and merge rows until all are finite and different."""
    numbers = [column for column in table.columns if column.is_numbers]
    notes = [*table.notes, *_without_numbers([column.name for column in table.columns if not column.is_numbers])]
    flat = {column.name: column for column in numbers if _is_flat(column.values[column.finite])}
    if flat:
        notes.append(f"Constant columns were left out: {_listed(list(flat))}.")
    usable = {column.name: column for column in numbers if column.name not in flat}
    if len(usable) < 2:
        number_of = "only one column" if usable else "no columns"
        raise Refused(f"has {number_of} of numbers that vary; at least two are needed.")
    used = _used_by_default(usable, notes) if asked is None else _asked(usable, flat, asked)
    points = _different_rows(_complete_rows(used, notes), notes)
    if len(points) < MIN_POINTS:
        raise Refused(f"has {counted(len(points), 'usable row')}; at least {MIN_POINTS} are needed.{_most_lost(used)}")
    for column, values in zip(used, points.T):
        if _is_flat(values):
            raise Refused(f"has a column that is constant where all others have numbers: {column.name}. Leave it out.")
    return Upload(points, tuple(c.name for c in used), tuple(notes), tuple(usable), _suggested(list(usable.values())))


def _is_flat(values: Float[np.ndarray, " N"]) -> bool:
    return bool(np.ptp(values) <= FLAT * np.abs(values).max())


def _is_sparse(column: Column) -> bool:
    return 2 * int(column.finite.sum()) < len(column.values)


def _used_by_default(usable: dict[str, Column], notes: list[str]) -> list[Column]:
    """All columns, but for the mostly empty ones, which would take most rows with them."""
    full = [column for column in usable.values() if not _is_sparse(column)]
    if len(full) < 2:
        full = list(usable.values())
    elif len(full) < len(usable):
        sparse = [name for name, column in usable.items() if _is_sparse(column)]
        notes.append(f"Columns that are mostly empty were not used: {_listed(sparse)}.")
    if len(full) > MAX_COLUMNS:
        notes.append(f"Of {len(full):,} columns of numbers the first {MAX_COLUMNS} were used.")
    return full[:MAX_COLUMNS]


def _asked(usable: dict[str, Column], flat: dict[str, Column], asked: Sequence[str]) -> list[Column]:
    if not 2 <= len(asked) <= MAX_COLUMNS:
        raise Refused(f"is read with 2 to {MAX_COLUMNS} columns; {len(asked)} chosen.")
    if len(set(asked)) < len(asked):
        raise Refused("is read with different columns; one was chosen twice.")
    for name in asked:
        if name not in usable:
            wrong = "nothing but one value in column" if name in flat else "no column of numbers called"
            choices = ", ".join(list(usable)[:MAX_COLUMNS])
            raise Refused(f'has {wrong} "{clean_name(name)}". Choose among these: {choices}.')
    return [usable[name] for name in asked]


def _complete_rows(used: Sequence[Column], notes: list[str]) -> Float[np.ndarray, "N D"]:
    """The rows with a finite number in every column."""
    for column in used:
        if column.broken:
            wrong = "is not a number" if column.broken == 1 else "are not numbers"
            notes.append(f"{counted(column.broken, 'cell')} of {_called(column.name)} {wrong}.")
    points = np.column_stack([column.values for column in used])
    complete = np.isfinite(points).all(axis=1)
    if not complete.all():
        notes.append(f"Dropped {counted(int((~complete).sum()), 'row')} with a missing or infinite value.")
    return points[complete]


def _different_rows(points: Float[np.ndarray, "N D"], notes: list[str]) -> Float[np.ndarray, "M D"]:
    """The first of every group of equal rows, in the order of the file."""
    _, first = np.unique(points, axis=0, return_index=True)
    if len(first) < len(points):
        notes.append(f"Merged {counted(len(points) - len(first), 'row')} with an earlier row that is equal.")
    return points[np.sort(first)]


def _called(name: str) -> str:
    return name if name.startswith("column ") else f"column {name}"


def _most_lost(used: Sequence[Column]) -> str:
    """Which column costs most rows, as a sentence."""
    lost, name = max((int((~column.finite).sum()), column.name) for column in used)
    return f" There is no number in {_called(name)} in {counted(lost, 'row')}." if lost else ""


def _suggested(usable: Sequence[Column]) -> tuple[str, ...]:
    """The columns that are neither mostly empty, nor row numbers, nor labels, if there are two of them."""
    full = [column for column in usable if not _is_sparse(column)]
    measured = [column for column in full if not _counts_rows(column.values)]
    unlabeled = [column for column in measured if not _is_label(column.values[column.finite])]
    best = next(columns for columns in (unlabeled, measured, full, usable) if len(columns) >= 2)
    return tuple(column.name for column in best[:MAX_COLUMNS])


def _counts_rows(values: Float[np.ndarray, " N"]) -> bool:
    return bool(np.isfinite(values).all() and values[0] % 1 == 0 and (np.diff(values) == 1).all())


def _is_label(values: Float[np.ndarray, " N"]) -> bool:
    """Whether these are whole numbers of which few differ, like classes."""
    return bool((values % 1 == 0).all()) and len(np.unique(values)) <= min(MAX_LABELS, len(values) / 5)
