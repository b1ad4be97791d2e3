//! The edges of the deadline.

use redrive_retry::{CallBudget, Cause, Stop};

use crate::script::{FAIL, OK, Service, Step};
use crate::{known, ms};

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_at_the_deadline_is_not_begun() {
    for (deadline, expected) in [(301, 3), (300, 2), (299, 2)] {
        let service = Service::new([FAIL, FAIL, OK]);
        let retryer = known().deadline(ms(deadline)).build().unwrap();
        let ended = retryer.call(|attempt| service.call(attempt)).await;
        assert_eq!(service.calls(), expected, "deadline {deadline}");
        if expected == 3 {
            assert_eq!(ended.unwrap(), 3);
            continue;
        }
        let error = ended.unwrap_err();
        let left = ms(deadline - 100);
        assert_eq!(error.stop(), Stop::NoTimeToWait { wait: ms(200), left });
        assert_eq!(error.stop().retry_after(), Some(ms(200)));
        assert_eq!(service.elapsed(), ms(100), "it gave up at once");
        assert!(error.to_string().contains("the next wait takes 200ms and the deadline leaves"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_cut_at_the_deadline() {
    let service = Service::new([Step::Fail(ms(1_500)), Step::Hang]);
    let retryer = known().deadline(ms(2_000)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.took(), service.elapsed()), (Stop::Deadline, ms(2_000), ms(2_000)));
    assert_eq!(error.last(), Some(&Cause::TimedOut(ms(400))), "what was left after the wait");
    assert_eq!(service.attempts()[1].time, Some(ms(400)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_last_moment_counts() {
    let service = Service::new([Step::Answer(ms(1_999))]);
    let retryer = known().deadline(ms(2_000)).build().unwrap();
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    // Both at one moment: the answer is looked at first.
    let service = Service::new([Step::Answer(ms(2_000))]);
    assert_eq!(retryer.call(|attempt| service.call(attempt)).await.unwrap(), 1);
    let service = Service::new([Step::Answer(ms(2_001))]);
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.took()), (Stop::Deadline, ms(2_000)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_at_the_deadline_is_the_last() {
    let service = Service::new([Step::Fail(ms(2_000)), OK]);
    let retryer = known().deadline(ms(2_000)).base(ms(0)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts()), (Stop::Deadline, 1));
}

#[tokio::test(start_paused = true)]
async fn without_waits_the_deadline_still_ends_it() {
    let service = Service::new([Step::Fail(ms(30))]);
    let retryer = known().base(ms(0)).attempts(1_000).no_budget().deadline(ms(1_000)).build().unwrap();
    let error = retryer.call(|attempt| service.call(attempt)).await.unwrap_err();
    assert_eq!((error.stop(), error.attempts(), error.took()), (Stop::Deadline, 34, ms(1_000)));
}

#[tokio::test(start_paused = true)]
async fn the_earlier_deadline_of_a_message_holds() {
    let retryer = known().build().unwrap();
    for (message, expected) in [(250, 250), (20_000, 8_000)] {
        let service = Service::new([Step::Hang]);
        let until = tokio::time::Instant::now() + ms(message);
        let budget = CallBudget::new(None, Some(until));
        let error = budget.scope(retryer.call(|attempt| service.call(attempt))).await.unwrap_err();
        assert_eq!((error.stop(), service.elapsed()), (Stop::Deadline, ms(expected)));
    }
    let passed = CallBudget::new(None, Some(tokio::time::Instant::now()));
    let service = Service::new([OK]);
    let error = passed.scope(retryer.call(|attempt| service.call(attempt))).await.unwrap_err();
    assert_eq!((error.stop(), service.calls()), (Stop::Deadline, 0));
}
