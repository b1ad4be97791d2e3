//! The store on real files.

mod apart;
mod controls;
mod deeds;
mod delivery;
mod fixture;
mod histories;
mod lanes;
mod migrating;
mod opening;
mod publishing;
mod replays;
mod retention;
mod search;
mod settling;
