//! `redrive demo`: a minute of an order stream with a downstream that has moods, and what Redrive makes of it.
//!
//! ```text
//! shop ─▶ embedded queue ─▶ the flow, as `redrive run` runs it ─▶ HTTP ─▶ downstream with a temper
//!                                  └─▶ ledger ─▶ one command sends the parked ones back
//! ```
//! Nothing here is made up for the show: the queue, the flow, the ledger and the replay are the real ones.

mod arguments;
mod downstream;
mod ending;
mod figures;
mod frame;
mod pace;
mod script;
mod stage;
mod summary;
mod temper;
mod view;

use std::process::ExitCode;
use std::time::Duration;

pub(crate) use arguments::DemoArguments;
use redrive::codes;

use crate::problem::{FAILED, Problem};
use crate::terminal;
use stage::Stage;
use summary::Summary;
use view::View;

/// How often the demo looks at itself.
const LOOK: Duration = Duration::from_millis(100);
/// What is on its way at the end of the script gets so much longer.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| stage::failed("the demo", error))?;
    runtime.block_on(play(arguments))
}

async fn play(arguments: &DemoArguments) -> Result<ExitCode, Problem> {
    let mut stage = Stage::set(arguments.speed()).await?;
    let mut view = View::new(arguments.headless);
    let came = tokio::select! {
        // Whoever sees the first line may end it: signals are listened to by then.
        biased;
        () = told_to_end() => None,
        came = acts(&mut stage, &mut view, arguments) => Some(came),
    };
    drop(view);
    let ended = stage.end(came.is_none()).await;
    let Some(summary) = came.transpose()? else {
        ended?;
        terminal::say("stopped before its end; nothing is left behind");
        return Ok(ExitCode::from(FAILED));
    };
    ended?;
    terminal::print(&summary.text())?;
    let broken = summary.broken();
    if !broken.is_empty() {
        return Err(Problem::new(codes::DEMO_BROKEN, FAILED, broken.join("; ")));
    }
    terminal::say("nothing was lost, nothing was stormed, and nothing is left behind");
    Ok(ExitCode::SUCCESS)
}

async fn acts(stage: &mut Stage, view: &mut View, arguments: &DemoArguments) -> Result<Summary, Problem> {
    let held = minute(stage, view).await?;
    let group = ending::parked_group(stage).await?;
    let parked = group.as_ref().map_or(0, ending::parked);
    let replay = match &group {
        Some(group) => ending::replayed(stage, view, group, !arguments.headless).await?,
        None => None,
    };
    Summary::of(stage, held, parked, replay).await
}

/// The script, and what is still on its way after it. Whether the breaker held the flow meanwhile.
async fn minute(stage: &mut Stage, view: &mut View) -> Result<bool, Problem> {
    let mut held = false;
    let patience = stage.pace.takes(script::LENGTH) + PATIENCE;
    let began = std::time::Instant::now();
    loop {
        let placed = stage.all_placed().await?;
        let figures = stage.look().await?;
        held |= figures.is_held();
        view.show(&figures);
        if placed && figures.at >= script::LENGTH && figures.is_quiet() {
            return Ok(held);
        }
        if began.elapsed() > patience {
            let text = format!("it does not come to an end: {}", frame::one_line(&figures));
            return Err(Problem::new(codes::DEMO_BROKEN, FAILED, text));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for Ctrl-C, SIGTERM, or the terminal to be closed.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};

    let closed = async {
        match signal(SignalKind::hangup()) {
            Ok(mut hangup) => drop(hangup.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        told = redrive::signals::told_to_stop() => {
            if told.is_err() {
                // Without signals the demo runs to its end.
                std::future::pending::<()>().await;
            }
        }
        () = closed => {}
    }
}
