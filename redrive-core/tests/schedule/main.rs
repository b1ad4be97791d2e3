//! Schedules as other crates see them: their text, their delays, their spread, their working hours.

mod calendar;
mod calendar_model;
mod distribution;
mod documents;
mod durations;
mod errors;
mod generate;
mod properties;
mod text;
