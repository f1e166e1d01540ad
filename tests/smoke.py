"""What `make test` runs: on Spark a few tests of each capability, elsewhere all but long ones.

A test of tests/spark is named by file and function, and by its parameters where some of them are enough.
"""

from __future__ import annotations

from typing import Final

BY_CAPABILITY: Final[dict[str, tuple[str, ...]]] = {
    "batch": (
        "test_batch.py::test_a_join_of_two_tables_and_a_view_reads_right",
        "test_batch.py::test_columns_of_a_query_by_name_in_any_order_with_row_kinds_and_defaults",
        "test_batch.py::test_a_dataframe_is_written_and_read_by_format",
        "test_batch.py::test_a_write_with_a_failed_task_has_no_effect[true]",
        "test_create_table_as.py::test_columns_and_rows_are_the_query_s",
        "test_nested_columns.py::test_rows_are_changed_by_and_with_nested_values[logged]",
        "test_variants.py::test_statements_read_and_change_values[logged]",
        "test_variants.py::test_arrow_and_spark_read_and_write_the_same_values[keyed]",
    ),
    "overwrite": (
        "test_overwrite.py::test_an_overwrite_replaces_only_its_named_partitions",
        "test_replace_where.py::test_rows_that_match_the_condition_are_replaced_in_one_commit[keyed]",
        "test_replace_where.py::test_rows_that_match_the_condition_are_replaced_in_one_commit[rows]",
    ),
    "changes of rows": (
        "test_row_changes.py::test_rows_change_as_the_statements_say[keyed-True]",
        "test_row_changes.py::test_rows_change_as_the_statements_say[logged-True]",
        "test_row_changes.py::test_rows_change_as_the_statements_say[rows-True]",
        "test_row_changes.py::test_rows_change_as_the_statements_say[keyed-False]",
        "test_row_changes.py::test_two_rows_of_the_source_for_one_of_the_target_change_nothing",
        "test_table_changes.py::test_update_and_delete",
        "test_table_changes.py::test_merge_of_a_frame_of_arrow_rows_and_of_a_query",
    ),
    "streams": (
        "test_stream.py::test_a_streaming_write_fills_both_stores",
        "test_stream.py::test_a_stream_on_the_log_sees_changes_with_their_kinds",
        "test_stream.py::test_an_insert_from_a_log_is_a_streaming_query",
        "test_identity.py::test_a_stream_writes_nothing_into_another_table_of_the_name[log]",
    ),
    "streams by micro-batches of our own": (
        "test_micro_batches.py::test_a_query_ends_with_what_is_available_and_goes_on_later[files]",
        "test_micro_batches.py::test_a_query_ends_with_what_is_available_and_goes_on_later[log]",
        "test_micro_batches.py::test_a_stream_is_written_by_each_batch_once",
    ),
    "a day of a shop, with each Spark's own lines": (
        "test_day_of_a_shop.py::test_batches_statements_and_streams_of_one_table",
    ),
    "reads of the log": (
        "test_union_read.py::test_a_batch_query_is_as_fresh_as_the_log[300-debezium-json]",
        "test_union_read.py::test_a_stream_begins_with_the_newest_snapshot_and_goes_on_in_the_log[all-debezium-json]",
        "test_normalize.py::test_a_sum_over_an_upsert_log_comes_out_right",
        "test_row_kinds.py::test_the_sign_of_the_row_kind_does_the_same_on_a_data_frame[all]",
    ),
    "real time": (
        "test_realtime.py::test_changes_of_all_types_are_those_of_tail",
        "test_realtime.py::test_records_of_all_types_are_those_of_a_writer",
    ),
    "lookup joins": (
        "test_lookup_join.py::test_a_frame_finds_the_newest_rows[auto-'log-store.enabled' = 'true']",
        "test_lookup_join.py::test_rows_of_every_type_come_through",
        "test_lookup_join.py::test_sql_of_a_batch[text0-want0]",
    ),
    "reads by Spark itself": (
        "test_native_scan.py::test_tables_of_paimon_are_read_by_spark_as_lakelog_reads_them",
        "test_deletion_vectors.py::test_spark_reads_what_a_compaction_has_marked",
        "test_generated_queries.py::test_the_answer_is_spark_s",
        "test_cached_tables.py::test_queries_answer_from_memory_until_the_table_changes[read by Spark]",
    ),
    "less to read": (
        "test_pruning.py::test_counts_come_from_metadata",
        "test_pruning.py::test_a_limit_reads_no_more_splits_than_it_needs",
        "test_pruning.py::test_both_sides_of_a_pruning_join_are_of_one_moment",
    ),
    "files": (
        "test_compaction.py::test_buckets_are_compacted_by_executors_and_committed_by_the_driver",
        "test_shuffle.py::test_the_bucket_of_a_row_is_the_same_in_spark[string]",
        "test_shuffle.py::test_a_write_makes_one_file_for_each_bucket",
        "test_sorted_files.py::test_an_order_leaves_the_fewest_to_its_first_column",
    ),
    "the past, system tables, changes": (
        "test_file_views.py::test_sql_reads_system_tables_the_past_and_changes",
        "test_change_calls.py::test_both_ends_are_part_of_the_range",
    ),
    "statements, procedures, catalogs": (
        "test_attach.py::test_statements_answer_with_dataframes",
        "test_attach.py::test_parameters_and_frames",
        "test_catalogs.py::test_a_join_and_writes_across_catalogs",
    ),
    "errors": (
        "test_bad_input.py::test_rows_that_do_not_fit_write_nothing",
        "test_bad_input.py::test_malformed_sql_points_at_its_place",
    ),
    "metrics": ("test_metrics.py::test_rows_of_a_stream_are_counted_at_the_driver_once",),
}

SMOKE: Final = frozenset(test for tests in BY_CAPABILITY.values() for test in tests)

LONG: Final = frozenset(
    {
        "cli/test_around.py::test_a_real_bash_completes",
        "cli/test_around.py::test_metrics_serves_until_it_is_interrupted",
        "cli/test_around.py::test_quiet_leaves_remarks_out",
        "cli/test_main.py::test_a_service_that_is_terminated_ends_with_0",
        "cli/test_main.py::test_any_locale_can_print_any_text",
        "contract/test_new_parts.py::test_a_terminal_lets_those_run_a_registered_statement_whose_role_covers_it",
        "contract/test_new_parts.py::test_commands_run_a_registered_statement_and_procedure",
        "contract/test_new_parts.py::test_other_processes_know_registered_parts",
        "dashboard/test_actions.py::test_an_action_runs_from_the_page_of_its_table",
        "dashboard/test_connections.py::test_a_running_request_keeps_its_connection",
        "dashboard/test_connections.py::test_the_oldest_of_too_many_are_ended_and_one_that_asks_is_answered",
        "dashboard/test_daily_use.py::test_tags_branches_and_readers_are_made_moved_and_dropped",
        "dashboard/test_inspections.py::test_a_table_that_does_not_answer_does_not_keep_the_server_from_ending",
        "dashboard/test_live_tail.py::test_a_tail_reads_in_a_process_that_ends_with_its_follower_or_at_a_bad_record",
        "dashboard/test_logins.py::test_a_login_flood_hashes_one_password_at_a_time",
        "dashboard/test_pages.py::test_a_table_with_a_dot_in_its_name_has_its_pages",
        "dashboard/test_pages.py::test_numbers_of_any_length_are_answered",
        "dashboard/test_previews.py::test_a_preview_has_a_time_limit",
        "dashboard/test_previews.py::test_a_wide_table_is_shown_page_by_page",
        "dashboard/test_previews.py::test_an_internal_error_of_a_preview_is_reported_as_such",
        "dashboard/test_previews.py::test_updates_corrections_and_unreadable_records_of_a_packed_log",
        "filestore/test_lookup_remains.py::test_a_compaction_that_dies_anywhere_has_happened_or_not",
        "io/test_locks.py::test_with_a_lock_no_commit_is_lost[sql]",
        "property/test_overwrite_crash_points.py::test_a_write_that_goes_wrong_at_any_call_is_done_or_not",
        "property/test_history.py::test_all_that_must_stay_is_readable_after_every_step",
        "property/test_hostile_metadata.py::test_nothing_outside_of_a_table_is_touched[vectors]",
        "property/test_published_changes.py::test_the_log_of_every_merge_engine_adds_up_to_its_files",
        "property/test_views.py::test_histories_that_went_wrong_before",
        "property/test_views.py::test_views_equal_their_queries_after_any_history",
        "serve/test_kills.py::test_batches_are_there_once_after_kills",
        "service/test_optimizer.py::test_it_stops_at_the_next_safe_point_and_what_was_done_counts[2]",
        "service/test_terminal.py::test_a_closed_terminal_leaves_no_process_and_takes_no_text",
        "service/test_terminal.py::test_a_hostile_text_is_refused_and_the_next_one_runs",
        "service/test_terminal.py::test_a_long_text_is_refused_and_old_texts_are_forgotten",
        "service/test_terminal.py::test_a_process_that_is_killed_fails_what_ran_and_the_next_statement_has_a_new_one",
        "service/test_terminal_rights.py::test_a_writer_may_name_servers_that_the_catalog_lists_or_its_tables_have",
        "service/test_terminal_rights.py::test_an_admin_may_open_a_directory_where_the_server_allows_it",
        "service/test_terminal_rights.py::test_only_an_admin_takes_secrets_to_another_table_or_address",
        "service/test_views_example.py::test_raw_flights_reach_the_aggregates",
        "sql/test_view_attacks.py::test_a_source_without_a_key_may_call_its_columns_so",
        "table/test_cuts.py::test_a_crash_between_any_two_writes_leaves_a_cut",
        "table/test_follower.py::test_a_follower_that_dies_at_any_call_leaves_each_row_to_the_next_one_once",
        "table/test_idle_tables.py::test_what_is_taken_for_control_records_is_never_anything_else",
        "table/test_pipe.py::test_a_killed_pipe_goes_on_with_the_next_row",
        "table/test_seal.py::test_a_process_that_ends_seals_what_it_has_decided",
        "table/test_take_over.py::test_rows_of_a_driver_that_died_after_its_decision_get_a_snapshot",
        "table/test_take_over.py::test_rows_of_one_that_died_before_it_decided_are_taken_back",
        "table/test_transactional.py::test_long_epochs_are_read_back_in_parts",
        "unit/test_deploy.py::test_the_dashboard_answers_the_probes_of_its_pod_and_no_other_name",
        "unit/test_deploy.py::test_the_optimizer_s_command_is_one_of_lakelog",
        "unit/test_without_spark.py::test_simple_statements_run_beside_any_pyspark_and_every_way_to_it_says_what_to_install",
        "unit/test_without_spark.py::test_the_command_line_says_the_same",
        "unit/test_without_spark.py::test_the_doctor_runs_all_its_checks",
    }
)
"""Tests of several seconds that ``make test-deep`` runs: folder, file and function, with parameters where only some are
meant."""
