//! From scenarios to tests.

/// Makes one test of each scenario, by its name.
///
/// The first argument makes a fixture and is evaluated once a test; the second, which may be left out, stands behind
/// `#[tokio::test]`:
///
/// ```text
/// testkit::contract_tests!(FileFixture::new(), (flavor = "multi_thread", worker_threads = 2));
/// ```
#[macro_export]
macro_rules! contract_tests {
    ($fixture:expr) => {
        $crate::contract_tests!($fixture, ());
    };
    ($fixture:expr, $how:tt) => {
        $crate::contract_tests!(
            @each $fixture, $how,
            classes::acknowledges_what_succeeds,
            classes::transient_failures_are_retried_then_dead,
            classes::contention_has_its_own_schedule,
            classes::permanent_technical_failures_are_parked_at_once,
            classes::permanent_business_failures_are_parked_at_once,
            classes::poison_is_parked_at_once,
            classes::unknown_failures_are_retried_then_parked,
            classes::each_message_type_has_its_policy,
            layers::in_place_retries_leave_no_trace_when_they_succeed,
            layers::a_long_wait_in_place_frees_its_slot,
            layers::a_blocking_retry_holds_the_others,
            layers::a_blocking_retry_ends,
            layers::a_delayed_retry_waits_in_the_broker,
            layers::the_layers_follow_each_other,
            layers::ready_messages_keep_their_order,
            budgets::the_attempt_budget_is_exact,
            budgets::the_local_budget_is_exact,
            budgets::the_broker_budget_is_exact,
            budgets::the_age_budget_ends_retries,
            budgets::the_delay_budget_ends_retries,
            budgets::the_call_budget_counts_what_handlers_charge,
            budgets::waits_in_hand_are_charged_once,
            exits::dead_letters_are_kept,
            exits::parked_messages_are_kept,
            exits::discarded_messages_stay_on_the_record,
            exits::a_rejection_publishes_its_event,
            exits::a_rejection_without_a_target_is_parked,
            bytes::any_bytes_come_back,
            bytes::an_empty_body_comes_back,
            bytes::a_null_body_comes_back,
            bytes::ten_megabytes_come_back,
            bytes::foreign_headers_are_untouched,
            bytes::own_headers_never_pile_up,
            bytes::forged_headers_do_no_harm,
            verdicts::the_verdict_ack_is_a_success,
            verdicts::the_verdict_retry_stays_within_the_budget,
            verdicts::verdicts_choose_the_exit,
            verdicts::the_verdict_reject_without_a_target_is_parked,
            verdicts::the_verdict_follow_is_charged_as_contention,
            verdicts::retry_after_is_honoured_within_its_clamp,
            verdicts::the_handlers_reason_stands,
            deeds::retry_now_does_not_wait,
            deeds::retry_now_racing_expiry_makes_one_attempt,
            deeds::retry_now_begins_a_dead_message_again,
            deeds::cancel_takes_a_retry_back,
            deeds::discard_can_be_undone,
            deeds::park_and_archive_put_messages_aside,
            deeds::reroute_sends_elsewhere,
            deeds::a_copy_is_a_new_message,
            deeds::a_copy_inherits_what_it_does_not_bring,
            deeds::deeds_by_filter_touch_what_fits,
            deeds::deeds_stand_in_the_audit,
            replays::a_replay_knows_every_outcome,
            replays::a_replay_can_be_paused_and_survives_a_restart,
            replays::a_cancelled_replay_leaves_the_rest,
            replays::a_replay_keeps_its_rate_and_maximum,
            replays::a_replay_takes_ids,
            replays::the_flow_drops_a_replays_double,
            stopping::a_stop_finishes_what_runs,
            stopping::a_stop_has_a_deadline,
            stopping::a_stop_writes_attempts_in_hand_down,
            stopping::a_stop_writes_a_blocking_retry_down,
            stopping::what_a_dead_flow_had_comes_back,
            stopping::the_ledger_survives_a_restart,
            once::a_processed_message_is_not_handled_again,
            once::a_failed_message_is_not_marked,
            once::a_step_runs_once,
            once::the_idempotency_key_is_stable,
            publishing::messages_published_while_running_are_handled,
            publishing::a_delayed_message_is_not_early,
            publishing::ids_are_minted,
            publishing::a_queued_id_is_refused,
            publishing::published_messages_survive_a_restart,
            clocks::a_clock_set_back_loses_nothing,
            clocks::a_clock_set_forward_makes_due_once,
            clocks::no_retry_comes_after_the_deadline,
            clocks::a_restart_with_a_clock_set_back_loses_nothing,
            breaking::a_panic_is_a_failure,
            breaking::a_handler_that_never_returns_is_given_up,
            breaking::ten_megabytes_of_error_text_are_bounded,
            breaking::odd_failures_do_no_harm,
            breaking::a_broker_that_does_not_settle_is_asked_again,
            breaking::a_source_that_does_not_answer_is_asked_again,
            breaking::a_deaf_ledger_is_told_again,
            breaking::a_late_settlement_changes_nothing,
            guards::an_outage_holds_the_flow_uncharged,
            guards::expired_credentials_charge_nobody,
            guards::a_proven_endpoint_blames_the_message,
            guards::poison_does_not_stop_the_healthy,
            guards::held_time_is_not_age,
            guards::the_rate_is_kept,
            ledger::an_entry_answers_the_questions,
            ledger::history_keeps_the_first_and_the_last,
            ledger::filters_select_what_they_say,
            ledger::pages_follow_each_other,
            ledger::groups_and_counts_keep_up,
            ledger::retention_takes_only_what_is_finished,
        );
    };
    (@each $fixture:expr, $how:tt, $($module:ident::$scenario:ident),+ $(,)?) => {
        $(
            #[::tokio::test $how]
            async fn $scenario() {
                $crate::contract::$module::$scenario(&$fixture).await;
            }
        )+
    };
}
