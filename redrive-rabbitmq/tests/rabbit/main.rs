//! RabbitMQ itself: what the contract does not ask, on a real server.

mod adopting;
mod alone;
mod between;
mod connections;
mod counting;
mod encrypted;
mod faults;
mod holding;
mod known_again;
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
