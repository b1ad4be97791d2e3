//! What a server says on its own: something between it and the flow says it in its place.

use std::time::Duration;

use redrive_engine::port::{Broker as _, Outcome, PortError, Refusal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use crate::stage::{PATIENCE, Stage, eventually, later, named, receive, settle, subscription};

/// What is said in the server's place.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// It is short of memory, and says so to whoever writes.
    Blocked,
    /// The same, to whoever reads.
    BlockedReading,
    /// It is not any more.
    Unblocked,
    /// Every channel that messages are delivered on is closed.
    CloseReading,
    /// Connections that messages are delivered on are cut.
    CutReading,
    /// Nothing more is passed on from it to a channel.
    Mute,
    /// The properties of what it delivers are passed on as nobody can read them, or as they are.
    Garble(bool),
    /// The same with properties whose tables are nested so deep that reading them takes more than a stack.
    Nest(bool),
}

impl Say {
    /// The properties that every message has instead of its own from now on, after these; nothing where they are passed on.
    fn instead(&self, before: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let header = |value: &[u8]| {
            let size = u32::try_from(2 + value.len()).unwrap().to_be_bytes();
            [&[0x20, 0][..], &size, &[1, b'k'], value].concat()
        };
        match self {
            Self::Garble(false) | Self::Nest(false) => None,
            // One header, of a type that there is not.
            Self::Garble(true) => Some(header(b"?")),
            Self::Nest(true) => {
                let mut value: Vec<u8> = Vec::new();
                for _ in 0..5_000 {
                    let size = u32::try_from(value.len()).unwrap().to_be_bytes();
                    value = [&b"A"[..], &size, &value].concat();
                }
                Some(header(&value))
            }
            _ => before,
        }
    }

    /// The frames, for a connection that delivers on this channel.
    fn frame(&self, reads: Option<u16>) -> Option<Vec<u8>> {
        let blocked = || [&[0, 10, 0, 60, 13][..], b"low on memory"].concat();
        let (channel, method): (u16, Vec<u8>) = match self {
            Self::Blocked => reads.is_none().then(|| (0, blocked()))?,
            Self::BlockedReading => reads.map(|_| (0, blocked()))?,
            Self::Unblocked => (0, vec![0, 10, 0, 61]),
            Self::CutReading | Self::Mute | Self::Garble(_) | Self::Nest(_) => return None,
            Self::CloseReading => (reads?, [&[0, 20, 0, 40, 1, 150, 7][..], b"timeout", &[0; 4]].concat()),
        };
        let size = u32::try_from(method.len()).unwrap();
        Some([&[1][..], &channel.to_be_bytes(), &size.to_be_bytes(), &method, &[0xce]].concat())
    }
}

/// Stands in front of a server. Answers with its port and with a way to say something.
pub(crate) async fn in_front_of(server: String) -> (u16, broadcast::Sender<Say>) {
    let (say, _) = broadcast::channel::<Say>(16);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let saying = say.clone();
    let mut said = say.subscribe();
    tokio::spawn(async move {
        let mut garbles = None;
        while let Ok((client, _)) = listener.accept().await {
            while let Ok(said) = said.try_recv() {
                garbles = said.instead(garbles);
            }
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(between(client, server, saying.subscribe(), garbles.clone()));
        }
    });
    (port, say)
}

async fn between(
    client: TcpStream,
    server: TcpStream,
    mut say: broadcast::Receiver<Say>,
    mut garbles: Option<Vec<u8>>,
) -> Option<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let (mut reads, mut mute) = (None, false);
    let mut heard: Vec<u8> = Vec::new();
    loop {
        tokio::select! {
            // Only whole frames are passed on, so that whatever is said stands between two of them.
            read = from_server.read_buf(&mut heard) => {
                if read.ok()? == 0 {
                    return None;
                }
                while let Some(size) = heard.get(3..7) {
                    let size = u32::from_be_bytes(size.try_into().unwrap()) as usize + 8;
                    if heard.len() < size {
                        break;
                    }
                    let mut frame: Vec<u8> = heard.drain(..size).collect();
                    if mute && frame[1..3] != [0, 0] {
                        continue;
                    }
                    if let Some(properties) = garbles.as_ref().filter(|_| frame[0] == 2) {
                        let size = u32::try_from(12 + properties.len()).unwrap().to_be_bytes();
                        frame =
                            [&[2], &frame[1..3], &size, &frame[7..19], properties, &[0xce]].concat();
                    }
                    if frame[0] == 1 && frame[7..11] == [0, 60, 0, 60] {
                        reads = Some(u16::from_be_bytes([frame[1], frame[2]]));
                    }
                    to_client.write_all(&frame).await.ok()?;
                }
            }
            said = say.recv() => {
                let said = said.ok()?;
                match said {
                    Say::Mute => mute = true,
                    Say::CutReading if reads.is_some() => return None,
                    _ => {}
                }
                garbles = said.instead(garbles);
                if let Some(frame) = said.frame(reads) {
                    to_client.write_all(&frame).await.ok()?;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_short_of_memory_gets_no_copies_and_nothing_is_lost() {
    let Some(stage) = Stage::shared("blocked") else { return };
    let mut flow = stage.flow();
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    for id in ["a", "b"] {
        stage.publish("body", named(id)).await;
    }
    let read = receive(&mut source, 2).await;
    let first = settle(&broker, &read[0], later(Duration::from_millis(100))).await;
    assert!(first.is_ok(), "{first:?}");
    say.send(Say::Blocked).unwrap();
    let alarm = eventually("an alarm", async || broker.alarms().pop()).await;
    assert_eq!(alarm.name, "broker_blocked");
    assert!(alarm.why.contains("low on memory"), "{}", alarm.why);
    let refused =
        eventually("a refusal", async || settle(&broker, &read[1], Outcome::Park).await.err()).await;
    assert!(matches!(refused, PortError::Unavailable(_)), "{refused:?}");
    assert_eq!(&*receive(&mut source, 1).await[0].message.id, "a", "what is there is read");
    say.send(Say::Unblocked).unwrap();
    eventually("the end of the alarm", async || broker.alarms().is_empty().then_some(())).await;
    settle(&broker, &read[1], Outcome::Park).await.unwrap();
    stage.holds(&format!("{}.parking", stage.name), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_not_confirmed_in_time_keeps_its_original() {
    let Some(stage) = Stage::shared("mute") else { return };
    let mut flow = stage.flow();
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    flow.confirm_timeout = Duration::from_secs(1);
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    for id in ["a", "b"] {
        stage.publish("body", named(id)).await;
    }
    let read = receive(&mut source, 2).await;
    // The channel to write on is open, and its confirmations stay away.
    settle(&broker, &read[0], Outcome::Park).await.unwrap();
    say.send(Say::Mute).unwrap();
    let away = settle(&broker, &read[1], Outcome::Park).await.expect_err("nobody knows whether it is there");
    assert!(
        matches!(&away, PortError::Unavailable(why) if why.contains("did not confirm within 1s")),
        "{away:?}"
    );
    drop((source, broker));
    stage.holds(&stage.name, 1).await;
    let left = stage.get(&stage.name).await.expect("the original");
    assert_eq!(left.properties.message_id().as_ref().map(ToString::to_string).as_deref(), Some("b"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_server_closes_is_opened_again_and_what_was_in_hand_comes_again() {
    let Some(stage) = Stage::shared("closed") else { return };
    let mut flow = stage.flow();
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    let mut revoked = source.revoked().expect("losses");
    stage.publish("body", named("a")).await;
    let before = receive(&mut source, 1).await.remove(0);
    say.send(Say::CloseReading).unwrap();
    let lost = tokio::time::timeout(PATIENCE, revoked.recv()).await.unwrap().expect("a loss");
    assert!(lost.had(before.tag));
    let gone = settle(&broker, &before, Outcome::Ack).await;
    assert!(matches!(gone, Err(PortError::Refused(Refusal::NotFound { .. }))), "{gone:?}");
    let after = receive(&mut source, 1).await.remove(0);
    assert_eq!((&*after.message.id, after.redelivered), ("a", true));
    settle(&broker, &after, Outcome::Ack).await.unwrap();
    drop((source, broker));
    stage.holds(&stage.name, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_short_of_memory_is_heard_after_it_has_closed_a_channel() {
    let Some(stage) = Stage::shared("heard") else { return };
    let mut flow = stage.flow();
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    stage.publish("body", named("a")).await;
    receive(&mut source, 1).await;
    // A question for something that there is not ends its channel.
    stage.delete(&format!("{}.dlq", stage.name)).await;
    let plan = broker.plan(&subscription(&flow)).await.unwrap();
    assert_eq!(plan.iter().filter(|thing| !thing.exists).count(), 1);
    say.send(Say::BlockedReading).unwrap();
    let alarm = eventually("an alarm", async || broker.alarms().pop()).await;
    assert_eq!(alarm.name, "broker_blocked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_read_is_told_of_and_the_others_come_when_it_is_gone() {
    told_of("garbled", Say::Garble, "parse").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_nested_without_an_end_are_told_of_and_end_no_process() {
    told_of("nested", Say::Nest, "nested deeper").await;
}

async fn told_of(test: &str, unreadable: impl Fn(bool) -> Say, why: &str) {
    let Some(stage) = Stage::shared(test) else { return };
    let mut flow = stage.flow();
    let (port, say) = in_front_of(format!("{}:{}", flow.login.host, flow.login.port)).await;
    flow.login.port = port;
    let broker = stage.broker(flow.clone()).await;
    let mut source = broker.subscribe(&subscription(&flow)).await.unwrap();
    say.send(unreadable(true)).unwrap();
    stage.publish("body", named("a")).await;
    let alarm = eventually("an alarm", async || {
        broker.alarms().into_iter().find(|alarm| alarm.name == "reading_breaks_off")
    })
    .await;
    assert!(alarm.why.contains(&stage.name) && alarm.why.contains(why), "{}", alarm.why);
    say.send(unreadable(false)).unwrap();
    let delivery = receive(&mut source, 1).await.remove(0);
    assert_eq!(&*delivery.message.id, "a");
    settle(&broker, &delivery, Outcome::Ack).await.unwrap();
    eventually("the end of the alarm", async || broker.alarms().is_empty().then_some(())).await;
}
