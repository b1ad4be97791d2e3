//! The store as the ledger of a broker that stands apart.

mod bodies;
mod copies;
mod errands;
mod found;
mod lanes;
mod people;
mod places;
mod random;
mod recording;
mod topics;
mod world;
