//! RabbitMQ itself: what the contract does not ask, on a real server.

mod adopting;
mod between;
mod connections;
mod counting;
mod encrypted;
mod faults;
mod holding;
mod large;
mod making;
mod properties;
mod refusing;
mod rejecting;
mod settling;
mod stage;
mod streams;
mod stuck;
mod waiting;
