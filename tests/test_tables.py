"""Whatever the bytes: usable points or a sentence. What was written in a usual way is read back exactly."""

import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import tables
from core.tables import Upload, read_points
from core.text_tables import unique_names

NASTY = Path(__file__).parent / "nasty"
EXPECTED = json.loads((NASTY / "expected.json").read_text(encoding="utf-8"))
seeds = st.integers(0, 2**32 - 1)


def some_points(seed, size=30, dim=3):
    """Points without a whole number, so that none looks like a header, a label or a row number."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, dim)) * 10.0 ** rng.integers(-4, 5, dim)


def saved(save, *arguments):
    stream = io.BytesIO()
    save(stream, *arguments)
    return stream.getvalue()


def written(points, delimiter=",", header=(), end="\n", comma=False):
    lines = [delimiter.join(header)] if header else []
    for row in points:
        cells = [repr(float(value)) for value in row]
        lines.append(delimiter.join(cell.replace(".", ",") if comma else cell for cell in cells))
    return end.join(lines) + end


def as_parquet(points, names=("a", "b", "c")):
    return saved(lambda stream: pq.write_table(pa.table(dict(zip(names, points.T))), stream))


def read_or_refused(data, name="file", columns=None):
    """The upload, checked, or None where a sentence was said."""
    try:
        upload = read_points(data, name, columns)
    except ValueError as refusal:
        problem = refusal
    else:
        assert_usable(upload)
        return upload
    assert type(problem) is ValueError
    assert str(problem).startswith(name)
    assert str(problem).endswith(".")
    assert "\n" not in str(problem)
    return None


def assert_usable(upload):
    assert isinstance(upload, Upload)
    size, dim = upload.points.shape
    assert size >= tables.MIN_POINTS
    assert dim == len(upload.columns) >= 2
    assert np.isfinite(upload.points).all()
    assert (np.ptp(upload.points, axis=0) > 0).all()
    assert len(np.unique(upload.points, axis=0)) == size
    assert len(set(upload.choices)) == len(upload.choices)
    assert set(upload.columns) <= set(upload.choices)
    assert len(set(upload.suggested)) >= 2
    assert set(upload.suggested) <= set(upload.choices)


@pytest.mark.parametrize("name", sorted(path.name for path in NASTY.iterdir() if path.name != "expected.json"))
def test_nasty_files(name):
    data, expected = (NASTY / name).read_bytes(), EXPECTED[name]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
            read_points(data, name)
    else:
        upload = read_points(data, name)
        assert_usable(upload)
        assert {
            "columns": list(upload.columns),
            "rows": len(upload.points),
            "notes": list(upload.notes),
            "suggested": list(upload.suggested[:2]),
        } == expected


def test_every_expectation_has_its_file():
    assert set(EXPECTED) == {path.name for path in NASTY.iterdir()} - {"expected.json"}


@given(
    seed=seeds,
    delimiter=st.sampled_from(["\t", ";", ",", "|", " ", "   ", ", ", " ; "]),
    header=st.sampled_from([(), ("x", "y", "z"), ("länge", "β 2", "z")]),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    comma=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@settings(max_examples=120, deadline=None)
def test_text_is_read_back_exactly(seed, delimiter, header, end, comma, encoding):
    comma = comma and "," not in delimiter
    if not delimiter.strip(" "):
        header = tuple(name.replace(" ", "_") for name in header)
    points = some_points(seed)
    upload = read_points(written(points, delimiter, header, end, comma).encode(encoding), "points.txt")
    assert np.array_equal(upload.points, points)
    assert upload.columns == (header or ("column 1", "column 2", "column 3")) == upload.choices
    assert upload.suggested == upload.columns[:50]
    assert len(upload.notes) == comma


@given(
    seed=seeds, lost=st.integers(0, 5), broken=st.integers(0, 5), infinite=st.integers(0, 5), twice=st.integers(0, 5)
)
@settings(max_examples=40, deadline=None)
def test_rows_are_dropped_and_merged_and_counted(seed, lost, broken, infinite, twice):
    points = some_points(seed, 50)
    rows = [[repr(float(value)) for value in row] for row in points]
    bad = lost + broken + infinite
    words = (
        ["NA", "", "?", "none", "-"][:lost] + ["oops"] * broken + ["inf", "-1e101", "1e400", "inf", "inf"][:infinite]
    )
    for row, word in zip(rows, words):
        row[1] = word
    rows += rows[bad : bad + twice]
    upload = read_points("\n".join(map(",".join, [["x", "y", "z"], *rows])).encode(), "points.csv")
    assert np.array_equal(upload.points, points[bad:])
    counts = [int(note.split()[0 if "column" in note else 1]) for note in upload.notes]
    assert counts == [count for count in (broken, bad, twice) if count]


@given(seed=seeds, order=st.permutations(["a", "b", "c"]), size=st.integers(2, 3))
@settings(max_examples=20, deadline=None)
def test_columns_come_in_the_order_asked_for(seed, order, size):
    points = some_points(seed)
    upload = read_points(as_parquet(points), "points.parquet", order[:size])
    assert upload.columns == tuple(order[:size])
    assert np.array_equal(upload.points, points[:, ["abc".index(name) for name in order[:size]]])
    assert upload.choices == ("a", "b", "c")


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        (["x"], "2 to 50"),
        (["x"] * 51, "2 to 50"),
        (["x", "x"], "chosen twice"),
        (["x", "nope"], "Choose among these: x, y, half"),
        (["x", "word"], "no column of numbers"),
        (["x", "flat"], "one value"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(columns, wrong):
    lines = [f"{a!r},{b!r},7,w{k},{'' if k % 3 else a * b}" for k, (a, b) in enumerate(some_points(0, 90, 2).tolist())]
    data = "\n".join(["x,y,flat,word,half", *lines]).encode()
    with pytest.raises(ValueError, match=wrong):
        read_points(data, "points.csv", columns)
    assert read_points(data, "points.csv").columns == ("x", "y")  # `half` would take two thirds of the rows with it
    assert read_points(data, "points.csv", ["half", "x"]).points.shape == (30, 2)


@given(seed=seeds, kind=st.sampled_from(["f8", "f4", "f2", ">f8", "i8", "u4", "i2", ">i4", "g"]), fortran=st.booleans())
@settings(max_examples=40, deadline=None)
def test_numpy_and_parquet_are_read_back(seed, kind, fortran):
    points = (np.random.default_rng(seed).permutation(90).reshape(30, 3) * 1.25).astype(kind)
    stored = np.asfortranarray(points) if fortran else points
    for data in (saved(np.save, stored), saved(np.savez, stored), saved(np.savez_compressed, stored)):
        upload = read_points(data, "points.npy")
        assert np.array_equal(upload.points, points.astype(float))
        assert upload.columns == ("column 1", "column 2", "column 3")
    if kind not in ("g", ">f8", ">i4"):  # which Parquet does not know
        assert np.array_equal(read_points(as_parquet(points), "points.parquet").points, points.astype(float))


def test_booleans_are_numbers():
    flags = np.c_[np.arange(24) % 2, np.arange(24)].astype("i8")
    records = np.array([(bool(a), b * 0.5) for a, b in flags], dtype=[("flag", "?"), ("x", "f8")])
    assert np.array_equal(read_points(saved(np.save, records), "r.npy").points, flags * [1, 0.5])
    table = pa.table({"flag": flags[:, 0] == 1, "x": flags[:, 1] * 0.5})
    assert np.array_equal(read_points(saved(lambda s: pq.write_table(table, s)), "p").points, flags * [1, 0.5])


REAL = (
    written(some_points(0), ";", ("x", "y", "z"), "\r\n", comma=True).encode(),
    written(some_points(1), "\t", ("x", "y", "z")).encode("utf-16"),
    b'sep=;\n"a";"b"\n' + b'"1,5";"2"\n' * 3,
    saved(np.save, some_points(2)),
    saved(np.save, np.array([(1.0, 2)] * 24, dtype=[("β", "f8"), ("i", "i4")])),
    saved(np.savez_compressed, some_points(3)),
    as_parquet(some_points(4)),
)


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_points_or_a_sentence(data):
    for magic in (b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"PAR1", b"\xff\xfe"):
        read_or_refused(magic + data)


@given(st.text(alphabet="0123456789.,;\t |\"#-+eE\n\rxnaif_=[]{}<'", max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_is_points_or_a_sentence(text):
    read_or_refused(text.encode())


@given(
    data=st.sampled_from(REAL),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4), st.integers(0, 6)), min_size=1, max_size=5),
    cut=st.floats(0, 2),
)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_files_are_points_or_a_sentence(data, edits, cut):
    for place, new, gone in edits:
        at = int(place * len(data))
        data = data[:at] + new + data[at + gone :]
    read_or_refused(data[: int(cut * len(data))] if cut < 1 else data)


@pytest.mark.parametrize("shape", ["(10**18, 2)", "(1000000000000000000, 2)", "(99999, 200)", "(-5, -7)", "(30,)", "2"])
@pytest.mark.parametrize("descr", ["'<f8'", "'|V0'", "'<U0'", "[]", "'|O'", "[('a', '<f8', (9,))]"])
def test_a_header_that_lies_costs_nothing(shape, descr):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    assert read_or_refused(data) is None


@pytest.mark.parametrize(
    "header", [b"(" * 9000, b"{" * 9000, b"-" * 9000, b"9" * 9000, b"'\\x", b"{'shape': 1L", b"\xff\xfe"]
)
def test_a_header_that_is_no_header_is_refused(header):
    for version in (b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x07\x00"):
        size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
        assert read_or_refused(b"\x93NUMPY" + version + size + header) is None


def test_a_zip_that_unpacks_to_too_much_is_refused():
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("arr_0.npy", "w") as member:
        for _ in range(tables.MAX_UNPACKED // 2**24 + 1):
            member.write(bytes(2**24))
    with pytest.raises(ValueError, match="unpacks to more than"):
        read_points(bomb.getvalue(), "bomb.npz")


def test_sizes_have_limits():
    with pytest.raises(ValueError, match="is larger than 20 MB"):
        read_points(b"1" * (tables.MAX_BYTES + 1), "long.csv")
    with pytest.raises(ValueError, match="100,001 rows"):
        read_points(b"1.5,2\n" * 100_001, "long.csv")
    with pytest.raises(ValueError, match="100,001 rows"):
        read_points(saved(np.save, np.zeros((100_001, 2), np.int8)), "long.npy")
    with pytest.raises(ValueError, match="more than 1,000,000 lines"):
        read_points(b"1,2\n" * 1_000_001, "long.csv")
    with pytest.raises(ValueError, match="10,001 columns"):
        read_points(b"1," * 10_000 + b"2\n", "wide.csv")


def test_of_many_columns_the_first_fifty_are_used():
    upload = read_points(written(some_points(0, 30, 60)).encode(), "wide.csv")
    assert (upload.points.shape, len(upload.choices)) == ((30, 50), 60)
    assert upload.notes == ("Of 60 columns of numbers the first 50 were used.",)


def test_a_large_file_is_read_to_its_last_digit():
    points = some_points(0, 100_000, 2)
    data = written(points, header=("x", "y")).encode()
    upload = read_points(data, "large.csv")
    assert np.array_equal(upload.points, points)


@given(st.lists(st.text(max_size=70) | st.sampled_from(["x", "x (2)", "column 2", ""]), max_size=12))
def test_names_are_different_short_and_printable(raw):
    names = unique_names(raw)
    assert len(names) == len(raw) == len(set(names))
    assert all(name and name.isprintable() and name == name.strip() for name in names)
    assert unique_names(["x", "x", "", "x (2)"]) == ("x", "x (2)", "column 3", "x (2) (2)")


def test_the_name_in_a_message_is_one_line():
    with pytest.raises(ValueError, match=r"^evil name\.csv is empty\.$"):
        read_points(b"", "evil\n\x00name.csv")
    with pytest.raises(ValueError, match=r"^The file is empty\.$"):
        read_points(b"", "")
