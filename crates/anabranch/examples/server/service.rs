//! The server: connections, deadlines, cancellation, and a new engine for one whose context is lost.

use crate::engine::Engine;
use crate::protocol::{self, Answer, Connection, Reason, Request};
use crate::statistics::Statistics;
use anabranch::Device;
use futures::{SinkExt, StreamExt};
use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The settings of the server.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How many requests are worked on at a time.
    pub(crate) streams: usize,
    /// How long a request may take, waiting for its turn included, and how long its client may take to receive the answer.
    pub(crate) deadline: Duration,
    /// How many pixels the largest picture may have.
    pub(crate) largest: u32,
    /// Whether clients may make requests fail on purpose.
    pub(crate) allow_injection: bool,
    /// Whether the software device runs the PTX of the kernels, and not their twins.
    pub(crate) ptx: bool,
}

/// How long the server waits before it accepts connections again, where it could not.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Service {
    device: Device,
    options: Options,
    engine: Mutex<Arc<Engine>>,
    statistics: Statistics,
    shutdown: CancellationToken,
    connections: TaskTracker,
}

impl Service {
    /// Must be called within the runtime that is to serve.
    pub(crate) fn open(device: &Device, options: Options) -> anabranch::Result<Arc<Self>> {
        let engine = Engine::open(device, options.streams, options.ptx, Handle::current())?;
        Ok(Arc::new(Self {
            device: device.clone(),
            options,
            engine: Mutex::new(Arc::new(engine)),
            statistics: Statistics::default(),
            shutdown: CancellationToken::new(),
            connections: TaskTracker::new(),
        }))
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Serves all connections until the service is closed. Where no connection can be accepted, because too many files are
    /// open or a client has already left, it tries again.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let mut could_accept = true;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => self.spawn(stream),
                Err(error) => {
                    if could_accept {
                        // Where standard error is closed, nobody is to be told.
                        let _ = writeln!(io::stderr(), "a connection could not be accepted: {error}");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = self.shutdown.cancelled() => return,
                    }
                    could_accept = false;
                    continue;
                }
            }
            could_accept = true;
        }
    }

    fn spawn(self: &Arc<Self>, stream: TcpStream) {
        let service = self.clone();
        self.connections.spawn(async move {
            // Where answers cannot be sent at once, they are sent a little later.
            let _ = stream.set_nodelay(true);
            // If a connection breaks, there is nobody to report to.
            let _ = service.attend(protocol::connection(stream, service.options.largest)).await;
        });
    }

    /// Ends: connections finish the request that they are at, and the device its work. A client that does not receive its
    /// answer delays the end by no more than a deadline.
    pub(crate) async fn close(&self) {
        self.shutdown.cancel();
        self.connections.close();
        self.connections.wait().await;
        let engine = self.engine.lock().await.clone();
        engine.quiet().await;
    }

    async fn attend(&self, mut connection: Connection) -> io::Result<()> {
        loop {
            let frame = tokio::select! {
                frame = connection.next() => frame,
                () = self.shutdown.cancelled() => return Ok(()),
            };
            let request = match frame {
                None => return Ok(()),
                // A frame that is too large. Where the next one begins is not known then.
                Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    let answer = failed(Reason::BadRequest, &error);
                    self.statistics.receive().answer(&answer);
                    self.send(&mut connection, &answer).await?;
                    return Err(error);
                }
                Some(frame) => protocol::decode(&frame?),
            };
            // The answer has crossed with it.
            if let Ok(Request::Cancel) = request {
                continue;
            }
            let received = self.statistics.receive();
            let answer = match request {
                Err(error) => failed(Reason::BadRequest, error),
                Ok(request) => self.answer_unless_cancelled(&mut connection, request).await?,
            };
            received.answer(&answer);
            self.send(&mut connection, &answer).await?;
        }
    }

    /// Answers a request, while the client may take it back. That the connection breaks is an error.
    async fn answer_unless_cancelled(&self, connection: &mut Connection, request: Request) -> io::Result<Answer> {
        // Dropping this future gives the request up: what it owns is freed behind its work.
        let mut answer = pin!(self.answer(request));
        tokio::select! {
            answer = &mut answer => Ok(answer),
            next = connection.next() => match next.transpose()?.map(|frame| protocol::decode(&frame)) {
                Some(Ok(Request::Cancel)) => Ok(failed(Reason::Cancelled, "as the client wished")),
                Some(_) => Ok(failed(Reason::BadRequest, "one request at a time")),
                // The client sends no more. It may have closed only that half of the connection, and wait.
                None => Ok(answer.await),
            },
        }
    }

    /// Sends an answer, which a client must receive in time.
    async fn send(&self, connection: &mut Connection, answer: &Answer) -> io::Result<()> {
        tokio::time::timeout(self.options.deadline, connection.send(protocol::encode(answer)?)).await?
    }

    async fn answer(&self, request: Request) -> Answer {
        let Request::Edges { width, height, pixels, inject } = request else {
            return failed(Reason::BadRequest, "there is nothing to cancel");
        };
        if inject.is_some() && !self.options.allow_injection {
            return failed(Reason::BadRequest, "this server does not fail on purpose");
        }
        if pixels.is_empty() || u64::from(width) * u64::from(height) != pixels.len() as u64 {
            return failed(Reason::BadRequest, format!("{} pixels are not {width} by {height}", pixels.len()));
        }
        if pixels.len() > self.options.largest as usize {
            return failed(Reason::BadRequest, format!("a picture has at most {} pixels", self.options.largest));
        }
        let engine = self.engine.lock().await.clone();
        let work = engine.edges(width, height, &pixels, inject);
        match tokio::time::timeout(self.options.deadline, work).await {
            Ok(Ok(edges)) => Answer::Edges(edges),
            Ok(Err(error)) if error.is_sticky() => {
                self.replace(&engine).await;
                failed(Reason::DeviceLost, error)
            }
            Ok(Err(error)) => failed(Reason::WorkFailed, error),
            Err(_) => failed(Reason::TimedOut, format!("not done within {:?}", self.options.deadline)),
        }
    }

    /// Puts a new engine in the place of one whose context is lost, unless another request has done so. Where there is none
    /// to be had, later requests try again.
    async fn replace(&self, lost: &Arc<Engine>) {
        let mut engine = self.engine.lock().await;
        if !Arc::ptr_eq(&engine, lost) {
            return;
        }
        let (device, runtime) = (self.device.clone(), Handle::current());
        let Options { streams, ptx, .. } = self.options;
        // Opening a context takes its time.
        let opened = tokio::task::spawn_blocking(move || Engine::open(&device, streams, ptx, runtime)).await;
        if let Ok(Ok(opened)) = opened {
            *engine = Arc::new(opened);
        }
    }
}

fn failed(reason: Reason, message: impl ToString) -> Answer {
    Answer::Failed { reason, message: message.to_string() }
}
