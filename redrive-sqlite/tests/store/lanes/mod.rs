//! Lanes.

mod following;
mod model;
mod order;
mod people;
mod random;
mod world;
