"""Every procedure that CALL runs: one function and one line each."""

from __future__ import annotations

from lakelog.options.registry import Registry
from lakelog.sql.runtime.procedure import Procedure

PROCEDURES: Registry[Procedure] = Registry(
    "procedure",
    {
        "compact": "lakelog.sql.procedures.maintenance:compact",
        "compact_manifest": "lakelog.sql.procedures.maintenance:compact_manifest",
        "expire_snapshots": "lakelog.sql.procedures.maintenance:expire_snapshots",
        "expire_partitions": "lakelog.sql.procedures.maintenance:expire_partitions",
        "expire_tags": "lakelog.sql.procedures.refs:expire_tags",
        "remove_orphan_files": "lakelog.sql.procedures.maintenance:remove_orphan_files",
        "rescale": "lakelog.sql.procedures.maintenance:rescale",
        "create_tag_from_timestamp": "lakelog.sql.procedures.refs:create_tag_from_timestamp",
        "create_tag": "lakelog.sql.procedures.refs:create_tag",
        "delete_tag": "lakelog.sql.procedures.refs:delete_tag",
        "rename_tag": "lakelog.sql.procedures.refs:rename_tag",
        "replace_tag": "lakelog.sql.procedures.refs:replace_tag",
        "rollback": "lakelog.sql.procedures.rollbacks:rollback",
        "rollback_to_timestamp": "lakelog.sql.procedures.rollbacks:rollback_to_timestamp",
        "rollback_to_watermark": "lakelog.sql.procedures.rollbacks:rollback_to_watermark",
        "rollback_to": "lakelog.sql.procedures.rollbacks:rollback_to",
        "create_branch": "lakelog.sql.procedures.refs:create_branch",
        "delete_branch": "lakelog.sql.procedures.refs:delete_branch",
        "fast_forward": "lakelog.sql.procedures.refs:fast_forward",
        "add_log": "lakelog.sql.procedures.streams:add_log",
        "remove_log": "lakelog.sql.procedures.streams:remove_log",
        "end_writer": "lakelog.sql.procedures.streams:end_writer",
        "clear_consumers": "lakelog.sql.procedures.streams:clear_consumers",
        "replay_rejected": "lakelog.sql.procedures.streams:replay_rejected",
        "reset_consumer": "lakelog.sql.procedures.streams:reset_consumer",
    },
    group="lakelog.procedures",
)
