//! Clients that make requests of all kinds, and check what becomes of them.

use crate::picture::Picture;
use crate::protocol::{self, Answer, Connection, Injection, Reason, Request};
use crate::serial;
use crate::service::Options;
use fastrand::Rng;
use futures::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What load there is to be.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) clients: u16,
    /// The longest side of a picture.
    pub(crate) side: u32,
    /// How many requests of a hundred are not left in peace.
    pub(crate) trouble: u8,
    /// Whether contexts can be lost on purpose.
    pub(crate) faults: bool,
    pub(crate) seed: u64,
}

/// What a client does about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Plain,
    Cancelled,
    /// The connection is closed before there is an answer.
    Left,
    Panicking,
    Stalled,
    Faulty,
    Senseless,
}

/// What became of the requests, as their clients saw it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// By what was done about them, and what was answered: pictures that were checked, reasons, or nothing.
    counts: BTreeMap<(Kind, Option<Reason>), u64>,
    /// Requests whose client did not wait for the answer.
    left: u64,
    /// Of requests that were left in peace and answered.
    latencies: Vec<Duration>,
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        other.counts.into_iter().for_each(|(key, count)| *self.counts.entry(key).or_default() += count);
        self.left += other.left;
        self.latencies.extend(other.latencies);
    }

    /// Requests that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.left + self.counts.values().sum::<u64>()
    }

    /// Pictures that were answered, and are right.
    pub(crate) fn right(&self) -> u64 {
        self.counts.iter().filter(|((_, reason), _)| reason.is_none()).map(|(_, count)| count).sum()
    }

    /// Requests that were left in peace, and failed all the same.
    pub(crate) fn unlucky(&self) -> u64 {
        let count = |(&(kind, reason), count): (&(Kind, Option<Reason>), &u64)| {
            if kind == Kind::Plain && reason.is_some() { *count } else { 0 }
        };
        self.counts.iter().map(count).sum()
    }

    /// The latency that so many thousandths of the requests did not exceed.
    fn latency(&self, thousandths: usize) -> Duration {
        let place = (self.latencies.len() * thousandths / 1000).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(place).copied().unwrap_or_default()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, reason), count) in &self.counts {
            match reason {
                None => writeln!(formatter, "{count:>8}  {kind:?}: answered, and right")?,
                Some(reason) => writeln!(formatter, "{count:>8}  {kind:?}: {reason}")?,
            }
        }
        writeln!(formatter, "{:>8}  Left: without waiting for the answer", self.left)?;
        let [half, most, longest] = [500, 990, 1000].map(|thousandths| self.latency(thousandths));
        write!(formatter, "latency of those left in peace: median {half:.2?}, 99 % {most:.2?}, longest {longest:.2?}")
    }
}

/// Puts the load on a server with those options.
pub(crate) async fn run(address: SocketAddr, options: &Options, load: &Load) -> Result<Outcome, Failure> {
    let mut clients = JoinSet::new();
    for number in 0..u64::from(load.clients) {
        let share =
            load.requests / u64::from(load.clients) + u64::from(number < load.requests % u64::from(load.clients));
        let client = Client {
            address,
            deadline: options.deadline,
            largest: options.largest,
            load: load.clone(),
            rng: Rng::with_seed(load.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number)),
            outcome: Outcome::default(),
        };
        clients.spawn(client.run(share));
    }
    let mut outcome = Outcome::default();
    while let Some(client) = clients.join_next().await {
        outcome.merge(client??);
    }
    outcome.latencies.sort_unstable();
    Ok(outcome)
}

struct Client {
    address: SocketAddr,
    deadline: Duration,
    largest: u32,
    load: Load,
    rng: Rng,
    outcome: Outcome,
}

impl Client {
    async fn run(mut self, requests: u64) -> Result<Outcome, Failure> {
        let mut connection = self.connect().await?;
        for _ in 0..requests {
            if !self.request(&mut connection).await? {
                connection = self.connect().await?;
            }
        }
        Ok(self.outcome)
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(protocol::connection(stream, self.largest))
    }

    fn choose(&mut self) -> Kind {
        if self.rng.u8(0..100) >= self.load.trouble {
            return Kind::Plain;
        }
        match self.rng.u8(0..50) {
            0..20 => Kind::Cancelled,
            20..30 => Kind::Left,
            30..39 => Kind::Panicking,
            39..46 => Kind::Senseless,
            46..49 => Kind::Stalled,
            _ if self.load.faults => Kind::Faulty,
            _ => Kind::Plain,
        }
    }

    /// Makes a request, and checks what becomes of it. Whether the connection can be used again.
    async fn request(&mut self, connection: &mut Connection) -> Result<bool, Failure> {
        let kind = self.choose();
        let [width, height] = [0; 2].map(|_| self.rng.u32(1..=self.load.side));
        let mut pixels = vec![0; width as usize * height as usize];
        self.rng.fill(&mut pixels);
        let picture = Picture::new(width as usize, height as usize, pixels)?;
        let inject = match kind {
            Kind::Panicking => Some(Injection::Panic),
            // Too long for the deadline, and not for those who wait for the stream.
            Kind::Stalled => Some(Injection::Stall(self.deadline.as_millis() as u64 * 3 / 2)),
            Kind::Faulty => Some(Injection::Fault),
            Kind::Plain | Kind::Cancelled | Kind::Left | Kind::Senseless => None,
        };
        let width = if kind == Kind::Senseless { width + 1 } else { width };
        let request = Request::Edges { width, height, pixels: picture.pixels().to_vec(), inject };
        let since = Instant::now();
        connection.send(protocol::encode(&request)?).await?;
        if matches!(kind, Kind::Cancelled | Kind::Left) {
            tokio::time::sleep(Duration::from_micros(self.rng.u64(0..3000))).await;
        }
        if kind == Kind::Left {
            self.outcome.left += 1;
            return Ok(false);
        }
        if kind == Kind::Cancelled {
            connection.send(protocol::encode(&Request::Cancel)?).await?;
        }
        let frame = connection.next().await.ok_or("the server has closed the connection")??;
        let answer = protocol::decode(&frame)?;
        let reason = check(kind, &picture, &answer)?;
        if kind == Kind::Plain && reason.is_none() {
            self.outcome.latencies.push(since.elapsed());
        }
        *self.outcome.counts.entry((kind, reason)).or_default() += 1;
        Ok(true)
    }
}

/// That an answer is one that such a request can get.
fn check(kind: Kind, picture: &Picture, answer: &Answer) -> Result<Option<Reason>, Failure> {
    let (reason, message) = match answer {
        Answer::Edges(edges) => {
            serial::edges(picture).require_equal(edges, "the server")?;
            let may_succeed = matches!(kind, Kind::Plain | Kind::Cancelled);
            return if may_succeed { Ok(None) } else { Err(format!("{kind:?} was answered").into()) };
        }
        Answer::Failed { reason, message } => (*reason, message),
    };
    let is_expected = match (kind, reason) {
        // Anybody may be in the context that somebody else loses, or in a queue behind others that are stalled.
        (_, Reason::DeviceLost | Reason::TimedOut) => kind != Kind::Senseless,
        (Kind::Cancelled, Reason::Cancelled) | (Kind::Senseless, Reason::BadRequest) => true,
        (Kind::Panicking, Reason::WorkFailed) => message.contains("injected"),
        _ => false,
    };
    if is_expected { Ok(Some(reason)) } else { Err(format!("{kind:?} failed: {reason}: {message}").into()) }
}
