"""Every procedure that CALL runs: its name → its value. One file and one line each."""

from __future__ import annotations

from lakelog.options.registry import Registry
from lakelog.sql.runtime.procedure import Procedure

PROCEDURES: Registry[Procedure] = Registry(
    "procedure",
    {
        "compact": "lakelog.sql.procedures.maintenance.compact:COMPACT",
        "compact_manifest": "lakelog.sql.procedures.maintenance.compact_manifest:COMPACT_MANIFEST",
        "expire_snapshots": "lakelog.sql.procedures.maintenance.expire_snapshots:EXPIRE_SNAPSHOTS",
        "expire_partitions": "lakelog.sql.procedures.maintenance.expire_partitions:EXPIRE_PARTITIONS",
        "expire_tags": "lakelog.sql.procedures.refs.expire_tags:EXPIRE_TAGS",
        "remove_orphan_files": "lakelog.sql.procedures.maintenance.remove_orphan_files:REMOVE_ORPHAN_FILES",
        "rescale": "lakelog.sql.procedures.maintenance.rescale:RESCALE",
        "create_tag_from_timestamp": (
            "lakelog.sql.procedures.refs.create_tag_from_timestamp:CREATE_TAG_FROM_TIMESTAMP"
        ),
        "create_tag": "lakelog.sql.procedures.refs.create_tag:CREATE_TAG",
        "delete_tag": "lakelog.sql.procedures.refs.delete_tag:DELETE_TAG",
        "rename_tag": "lakelog.sql.procedures.refs.rename_tag:RENAME_TAG",
        "replace_tag": "lakelog.sql.procedures.refs.replace_tag:REPLACE_TAG",
        "rollback": "lakelog.sql.procedures.rollbacks.rollback:ROLLBACK",
        "rollback_to_timestamp": "lakelog.sql.procedures.rollbacks.rollback_to_timestamp:ROLLBACK_TO_TIMESTAMP",
        "rollback_to_watermark": "lakelog.sql.procedures.rollbacks.rollback_to_watermark:ROLLBACK_TO_WATERMARK",
        "rollback_to": "lakelog.sql.procedures.rollbacks.rollback_to:ROLLBACK_TO",
        "create_branch": "lakelog.sql.procedures.refs.create_branch:CREATE_BRANCH",
        "delete_branch": "lakelog.sql.procedures.refs.delete_branch:DELETE_BRANCH",
        "fast_forward": "lakelog.sql.procedures.refs.fast_forward:FAST_FORWARD",
        "end_writer": "lakelog.sql.procedures.streams.end_writer:END_WRITER",
        "clear_consumers": "lakelog.sql.procedures.streams.clear_consumers:CLEAR_CONSUMERS",
        "replay_rejected": "lakelog.sql.procedures.streams.replay_rejected:REPLAY_REJECTED",
        "reset_consumer": "lakelog.sql.procedures.streams.reset_consumer:RESET_CONSUMER",
    },
    group="lakelog.procedures",
)
