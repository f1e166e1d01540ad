"""Tables with every kind of metadata file, and hostile values for each of their fields."""

from __future__ import annotations

import copy
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog import connect
from lakelog.fileformat.avro_file import read_records, write_records
from lakelog.paimon.metadata.manifest_avro import INDEX_MANIFEST_SCHEMA, MANIFEST_LIST_SCHEMA, MANIFEST_SCHEMA
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.registrations import Registrations
from limits import limit

SECRET = "OUTSIDE-SECRET"
"""Content of files outside of the table, which must not appear in any result or error."""
TABLE = Path("wh/d.db/t")
_EPOCH_HEAD = 12
_AVRO = (
    ("manifest-list-", MANIFEST_LIST_SCHEMA),
    ("index-manifest-", INDEX_MANIFEST_SCHEMA),
    ("manifest-", MANIFEST_SCHEMA),
)
_OPTIONS = (
    "data-file.path-directory",
    "data-file.prefix",
    "changelog-file.prefix",
    "partition.default-name",
    "consumer-id",
    "log-store.address",
    "log-store.topic",
    "scan.tag-name",
    "data-file.external-paths",
    "path",
)
_SHAPES = {
    "logged": (
        "primary key (id, p)) using lakelog partitioned by (p)",
        {"log-store.enabled": "true", "bucket": "1"},
    ),
    "vectors": (
        "primary key (id, p)) using lakelog partitioned by (p)",
        {"bucket": "-1", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    ),
}
SHAPES = tuple(_SHAPES)


def make_world(base: Path, shape: str, monkeypatch: Any) -> Path:
    """A warehouse with the table ``d.t``, and unrelated files around it."""
    keys, options = _SHAPES[shape]
    options = {
        **options,
        "file-index.bloom-filter.columns": "v",
        "file-index.in-manifest-threshold": "1 b",
        "snapshot.num-retained.min": "2",
        "snapshot.num-retained.max": "5",
        "changelog.num-retained.min": "8",
        "changelog.num-retained.max": "20",
        "manifest.merge-min-count": "3",
        "partition.default-name": "none",
    }
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    with connect(warehouse=str(base / "wh")) as lake:
        lake.sql(f"create database d; create table d.t (id int not null, p string not null, v string, {keys} "
                 f"tblproperties ({given})")  # fmt: skip
        table = lake.table("d.t")
        for number in range(8):
            write(table, [number, number + 1], f"v{number}")
            if number == 4:
                table.create_tag("kept")
                table.create_branch("side", tag="kept")
        table.compact(full=False)
        table.analyze()
        table.logical.store.consumers.record("reader", 5)
        table.expire_snapshots(retain_max=6, retain_min=1, older_than="0 s")
        if table.log is not None:
            _leave_an_epoch(table, base, monkeypatch)
    _put_outside(base)
    return base


def write(table: Any, ids: list[int], value: str) -> None:
    """Commits rows."""
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "p": ["a", "b"], "v": [value, None]}))


def _leave_an_epoch(table: Any, base: Path, monkeypatch: Any) -> None:
    """Leaves a decided epoch without a snapshot, like a writer that died before its seal."""
    snapshots, saved = base / TABLE / "snapshot", base / "saved"
    shutil.copytree(snapshots, saved)
    with monkeypatch.context() as patch:
        limit(patch, inline_bytes=0)
        patch.setattr(DecidedEpochs, "forget", lambda *_: None)
        patch.setattr(Registrations, "forget", lambda *_: None)
        write(table, [90, 91], "late")
    shutil.rmtree(snapshots)
    saved.rename(snapshots)


def _put_outside(base: Path) -> None:
    """Readable files of every kind, above the table at each depth, and another table."""
    root = base / TABLE
    first = {name: next(iter(sorted((root / "manifest").glob(f"{name}-*"))), None) for name, _ in (
        ("manifest-list", 0), ("index-manifest", 0), ("manifest-[0-9a-f]", 0))}  # fmt: skip
    for place in (base, base / "wh", base / "wh/d.db"):
        outside = place / "outside"
        outside.mkdir()
        (outside / "precious.txt").write_text(SECRET)
        rows = {"_KEY_id": [7], "_KEY_p": [SECRET], "_SEQUENCE_NUMBER": [1], "_VALUE_KIND": [0]}
        types = (pa.int32(), pa.string(), pa.int64(), pa.int8(), pa.int32(), pa.string(), pa.string())
        rows |= {"id": [7], "p": [SECRET], "v": [SECRET]}
        columns = {name: pa.array(values, kind) for (name, values), kind in zip(rows.items(), types, strict=True)}
        pq.write_table(pa.table(columns), outside / "data.parquet")
        for name, found in first.items():
            if found is not None:
                shutil.copy(found, outside / name.partition("-[")[0])
        for name in ("schema-0", "snapshot-7"):
            found = next(iter(sorted(root.glob(f"{name.partition('-')[0]}/{name.partition('-')[0]}-*"))))
            shutil.copy(found, outside / name)
        if (root / "lakelog/log.sqlite").exists():
            shutil.copy(root / "lakelog/log.sqlite", outside / "log.sqlite")
    shutil.copytree(root, base / "wh/d.db/other")


@dataclass(frozen=True)
class Field:
    """One text field of one metadata file, or a file that becomes a link: ``put`` gives it a value below a base."""

    label: str
    put: Callable[[Path, str], None]


def values_for(label: str) -> Iterator[str]:
    """Hostile values for a field, the most effective first; ``{base}`` is the directory of the world."""
    name = next(
        (target for sign, target in (
            ("ManifestList", "manifest-list"), ("indexManifest", "index-manifest"), ("manifest-list", "manifest"),
            ("log-store.address", "log.sqlite"), ("_FILE", "data.parquet"), ("file_name", "data.parquet"),
        ) if sign in label),
        "precious.txt",
    )  # fmt: skip
    yield f"../../../outside/{name}"
    yield f"{{base}}/outside/{name}"
    yield f"file://{{base}}/outside/{name}"
    yield f"../../../../outside/{name}"
    yield f"../other/{name}"


def all_fields(base: Path) -> Iterator[Field]:
    """Every text field of every metadata file of the table."""
    root = base / TABLE
    for path in sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink()):
        name = path.relative_to(root)
        kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27,}|\d+", "*", str(name))
        if name.parts[0] == "manifest":
            yield from _avro_fields(name, kind, path)
        elif path.name.startswith("epoch-") or path.parent.name == "chain":
            yield from _epoch_fields(name, kind, path)
        elif path.suffix in (".parquet", ".index", ".sqlite", ".sqlite-wal", ".sqlite-shm") or name.parts[0] == "index":
            pass
        else:
            yield from _json_fields(name, kind, path)


def links(base: Path) -> Iterator[Field]:
    """Each kind of file and of directory becomes a link to itself, outside of the table."""
    root, seen = base / TABLE, set()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27,}|\d+", "*", str(name))
        if kind not in seen and not path.name.endswith(("-wal", "-shm")):
            seen.add(kind)
            yield Field(f"{kind} (link)", _linked(name))


def _linked(name: Path) -> Callable[[Path, str], None]:
    def put(base: Path, value: str) -> None:
        path = base / TABLE / name
        away = base / "outside" / "linked" / name
        away.parent.mkdir(parents=True)
        path.rename(away)
        path.symlink_to(away)

    return put


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, (*path, at))
    elif isinstance(value, str | int | None) and not isinstance(value, bool):
        yield path


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    out = copy.deepcopy(value)
    at = out
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return out


def _label(kind: str, path: tuple[Any, ...]) -> str:
    return f"{kind}: {'.'.join('[]' if isinstance(key, int) else str(key) for key in path)}"


def _field(label: str, name: Path, data: Callable[[str], bytes]) -> Field:
    def put(base: Path, value: str) -> None:
        (base / TABLE / name).write_bytes(data(value))

    return Field(label, put)


def _json_fields(name: Path, kind: str, path: Path) -> Iterator[Field]:
    try:
        value = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        yield _field(f"{kind}: all of it", name, str.encode)
        return
    for leaf in _leaves(value):
        yield _field(_label(kind, leaf), name, lambda v, leaf=leaf: orjson.dumps(_with(value, leaf, v)))
    for option in _OPTIONS if "options" in value else ():
        more = {"log-store.type": "embedded"} if option == "log-store.address" else {}
        yield _field(
            _label(kind, ("options", option)),
            name,
            lambda v, o=option, m=more: orjson.dumps({**value, "options": {**value["options"], **m, o: v}}),
        )
    for key in ("statistics", "indexManifest", "changelogManifestList"):
        if "baseManifestList" in value and value.get(key) is None:
            yield _field(_label(kind, (key,)), name, lambda v, k=key: orjson.dumps({**value, k: v}))


def _avro_fields(name: Path, kind: str, path: Path) -> Iterator[Field]:
    schema = next(schema for prefix, schema in _AVRO if path.name.startswith(prefix))
    records = read_records(path.read_bytes())
    for leaf in _leaves(records):
        key = str(leaf[-1]) if not isinstance(leaf[-1], int) else str(leaf[-2])
        old: Any = records
        for step in leaf:
            old = old[step]
        if isinstance(old, str) or key in ("_EXTERNAL_PATH",):
            yield _field(
                _label(kind, leaf), name, lambda v, leaf=leaf: write_records(schema, _with(records, leaf, v), "none")
            )
    for at, record in enumerate(records):
        if "_FILE" in record:
            where = (at, "_FILE", "_EXTRA_FILES")
            yield _field(
                _label(kind, where), name, lambda v, w=where: write_records(schema, _with(records, w, [v]), "none")
            )


def _epoch_fields(name: Path, kind: str, path: Path) -> Iterator[Field]:
    data = path.read_bytes()
    (length,) = struct.unpack_from("<I", data, 8)
    head, blobs = orjson.loads(data[_EPOCH_HEAD : _EPOCH_HEAD + length]), data[_EPOCH_HEAD + length :]

    def packed(value: Any) -> bytes:
        header = orjson.dumps(value)
        return b"".join([data[:8], struct.pack("<I", len(header)), header, blobs])

    for leaf in _leaves(head):
        yield _field(_label(kind, leaf), name, lambda v, leaf=leaf: packed(_with(head, leaf, v)))
