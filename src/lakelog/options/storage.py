"""Options of a warehouse's storage: ``lakelog.connect(…, storage_options={…})``. They are never kept in a table."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Declared, Option, options_in
from lakelog.options.parts import LOCKS

HADOOP_PREFIX: Final = "hadoop."
"""Options with this prefix go to the HDFS client without it, on top of the files in HADOOP_CONF_DIR."""

NO_LOCK: Final = "none"
"""Value of ``storage.lock`` for a storage that needs none."""

S3_ENDPOINT: Final = Option(
    "s3.endpoint",
    str,
    None,
    "URL of an S3-compatible store. Default: AWS_ENDPOINT_URL, else Amazon S3.",
    scope=("lake",),
    aliases=("fs.s3a.endpoint",),
)
S3_ACCESS_KEY: Final = Option(
    "s3.access-key",
    str,
    None,
    "Access key. Default: AWS_ACCESS_KEY_ID, or the role of the machine.",
    scope=("lake",),
    aliases=("s3.access.key", "fs.s3a.access.key"),
    secret=True,
)
S3_SECRET_KEY: Final = Option(
    "s3.secret-key",
    str,
    None,
    "Secret key. Default: AWS_SECRET_ACCESS_KEY.",
    scope=("lake",),
    aliases=("s3.secret.key", "fs.s3a.secret.key"),
    secret=True,
)
S3_SESSION_TOKEN: Final = Option(
    "s3.session-token",
    str,
    None,
    "Token of temporary credentials. Default: AWS_SESSION_TOKEN.",
    scope=("lake",),
    aliases=("s3.session.token", "fs.s3a.session.token"),
    secret=True,
)
S3_REGION: Final = Option(
    "s3.region",
    str,
    None,
    "Region of the bucket. Default: AWS_REGION, else us-east-1.",
    scope=("lake",),
    aliases=("s3.endpoint.region", "fs.s3a.endpoint.region"),
)
S3_PATH_STYLE: Final = Option(
    "s3.path-style",
    bool,
    True,
    "Whether the bucket's name is in the path of a URL instead of its host.",
    scope=("lake",),
    aliases=("s3.path.style.access", "fs.s3a.path.style.access"),
)
STORAGE_LOCK: Final = Option(
    "storage.lock",
    str,
    NO_LOCK,
    "Lock that makes commits atomic on an object store without conditional put: file (writers on one machine), or "
    "sql (a database that all writers reach). Every writer needs the same lock.",
    scope=("lake",),
    choices=(NO_LOCK, *LOCKS),
)
STORAGE_LOCK_ADDRESS: Final = Option(
    "storage.lock.address",
    str,
    None,
    "Directory of the file lock, or SQLAlchemy URL of the sql lock's database.",
    scope=("lake",),
    secret=True,
)

STORAGE_OPTIONS: Final = Declared(options_in(globals()), [HADOOP_PREFIX])


_SECRETS: Final = frozenset(
    name for option in STORAGE_OPTIONS.options if option.secret for name in (option.key, *option.aliases)
)


def is_storage_option(key: str) -> bool:
    """True if an option belongs to the storage of a warehouse, and not to a table."""
    return STORAGE_OPTIONS.knows(key)


def is_storage_secret(key: str) -> bool:
    """True if the value of an option, under any of its names, must not be printed."""
    return key in _SECRETS or key.startswith(HADOOP_PREFIX)
