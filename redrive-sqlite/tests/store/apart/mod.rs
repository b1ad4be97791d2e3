//! The store as the ledger of a broker that stands apart.

mod copies;
mod errands;
mod found;
mod lanes;
mod people;
mod places;
mod random;
mod recording;
mod world;
