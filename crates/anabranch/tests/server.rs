//! The example `server` bears its load on the host device: every request is answered or fails with a reason, nothing leaks,
//! nothing hangs.
#![cfg(feature = "host")]

use anabranch::Instance;
use futures::{SinkExt, StreamExt};
use load::{Failure, Load};
use protocol::{Answer, Connection, Reason, Request};
use service::{Options, Service};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

#[path = "../examples/server/engine.rs"]
mod engine;
#[path = "../examples/edges/kernels.rs"]
mod kernels;
#[path = "../examples/server/load.rs"]
#[allow(dead_code, reason = "the example also prints what came of it")]
mod load;
#[path = "../examples/server/measured.rs"]
#[allow(dead_code, reason = "as above")]
mod measured;
#[path = "../examples/edges/picture.rs"]
#[allow(dead_code, reason = "the example also loads and saves pictures")]
mod picture;
#[path = "../examples/server/protocol.rs"]
mod protocol;
#[path = "../examples/edges/serial.rs"]
mod serial;
#[path = "../examples/server/service.rs"]
mod service;
#[path = "../examples/server/statistics.rs"]
mod statistics;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_with_cancellations_and_failures_is_borne() -> Result<(), Failure> {
    let device = Instance::new()?.device("host")?;
    let options = Options { streams: 4, allow_injection: true, ..options(Duration::from_millis(1500)) };
    let load = Load { requests: 300, clients: 12, side: 60, trouble: 40, faults: true, seed: 7 };
    let measured = measured::run(&device, options, &load).await?;
    assert!(measured.outcome.right() > 0);
    assert_eq!(measured.counts.open(), 0);
    Ok(())
}

#[tokio::test]
async fn requests_that_are_left_in_peace_are_all_answered() -> Result<(), Failure> {
    let device = Instance::new()?.device("host")?;
    for ptx in [false, true] {
        let options = Options { ptx, ..options(Duration::from_secs(300)) };
        let load = Load { requests: 100, clients: 5, side: 40, trouble: 0, faults: false, seed: 1 };
        let measured = measured::run(&device, options, &load).await?;
        assert_eq!((measured.outcome.right(), measured.outcome.unlucky()), (100, 0));
    }
    Ok(())
}

/// More pixels than the pictures here have.
const LARGEST: u32 = 1 << 20;

/// Only a hang takes so long.
const HANGS: Duration = Duration::from_secs(60);

fn options(deadline: Duration) -> Options {
    Options { streams: 2, deadline, largest: LARGEST, allow_injection: false, ptx: false }
}

/// A server in this process.
async fn serve(deadline: Duration) -> Result<(SocketAddr, Arc<Service>), Failure> {
    serve_with(options(deadline)).await
}

async fn serve_with(options: Options) -> Result<(SocketAddr, Arc<Service>), Failure> {
    let service = Service::open(&Instance::new()?.device("host")?, options)?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(service.clone().serve(listener));
    Ok((address, service))
}

async fn connect(address: SocketAddr) -> Result<Connection, Failure> {
    Ok(protocol::connection(TcpStream::connect(address).await?, LARGEST))
}

fn request() -> Request {
    Request::Edges { width: 3, height: 3, pixels: vec![7; 9], inject: None }
}

async fn answer(connection: &mut Connection) -> Result<Answer, Failure> {
    let frame = timeout(HANGS, connection.next()).await?.ok_or("the server has closed the connection")??;
    Ok(protocol::decode(&frame)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safety_57_a_client_that_closes_its_writing_half_gets_its_answer() -> Result<(), Failure> {
    let (address, service) = serve(HANGS).await?;
    let mut connection = connect(address).await?;
    connection.send(protocol::encode(&request())?).await?;
    SinkExt::<bytes::Bytes>::close(&mut connection).await?;
    assert!(matches!(answer(&mut connection).await?, Answer::Edges(edges) if edges.len() == 9));
    assert!(timeout(HANGS, connection.next()).await?.is_none(), "then the server closes the other half");
    timeout(HANGS, service.close()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_has_at_most_as_many_pixels_as_the_options_say() -> Result<(), Failure> {
    // One pixel too few, so few that the frame is too large, and enough.
    for (largest, side, is_allowed) in [(8, 3, false), (8, 100, false), (9, 3, true), (10_000, 100, true)] {
        let (address, service) = serve_with(Options { largest, ..options(HANGS) }).await?;
        let mut connection = connect(address).await?;
        let pixels = vec![7; side as usize * side as usize];
        let request = Request::Edges { width: side, height: side, pixels, inject: None };
        connection.send(protocol::encode(&request)?).await?;
        match answer(&mut connection).await? {
            Answer::Edges(edges) => assert!(is_allowed && edges.len() == (side * side) as usize, "{largest}"),
            Answer::Failed { reason, message } => {
                assert!(!is_allowed && reason == Reason::BadRequest, "{largest}: {message}");
            }
        }
        timeout(HANGS, service.close()).await?;
    }
    Ok(())
}

/// Sends requests, and reads none of the answers, until the server has had enough.
async fn never_read(address: SocketAddr) -> Result<(), Failure> {
    let mut connection = connect(address).await?;
    let senseless = protocol::encode(&Request::Edges { width: 1, height: 2, pixels: Vec::new(), inject: None })?;
    while connection.feed(senseless.clone()).await.is_ok() {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safety_57_a_client_that_does_not_read_is_given_up() -> Result<(), Failure> {
    let (address, service) = serve(Duration::from_millis(500)).await?;
    timeout(HANGS, never_read(address)).await??;
    // Others are served meanwhile, and the end waits for nobody who does not read.
    let unread = tokio::spawn(never_read(address));
    let mut connection = connect(address).await?;
    connection.send(protocol::encode(&request())?).await?;
    assert!(matches!(
        answer(&mut connection).await?,
        Answer::Edges(_) | Answer::Failed { reason: Reason::TimedOut, .. }
    ));
    timeout(HANGS, service.close()).await?;
    timeout(HANGS, unread).await???;
    assert_eq!(service.statistics().counts().open(), 0);
    Ok(())
}

/// The server of another test, in a process of its own. It ends when its standard input does.
#[tokio::test]
#[ignore = "only a part of another test"]
async fn serve_until_the_input_ends() -> Result<(), Failure> {
    let (address, _service) = serve(HANGS).await?;
    println!("serving on {address}");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    Ok(())
}

/// Ends a process, and so whoever reads its output.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safety_57_a_server_without_free_files_accepts_again_when_there_are_some() -> Result<(), Failure> {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let command = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" --ignored --exact serve_until_the_input_ends --nocapture"])
        .arg(std::env::current_exe()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut process = Killed(command);
    let child = &mut process.0;
    let input = child.stdin.take();
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let address = loop {
        let line = lines.next().ok_or("the server has ended")??;
        if let Some((_, address)) = line.split_once("serving on ") {
            break address.parse::<SocketAddr>()?;
        }
    };
    let mut connections = Vec::new();
    for _ in 0..80 {
        connections.push(connect(address).await?);
    }
    // It says that it cannot accept any more.
    let mut errors = BufReader::new(child.stderr.take().ok_or("no errors")?).lines();
    let refused =
        tokio::task::spawn_blocking(move || errors.any(|line| line.is_ok_and(|line| line.contains("accepted"))));
    assert!(timeout(HANGS, refused).await??, "the server has ended, or accepts everything");
    drop(connections);
    let mut connection = connect(address).await?;
    connection.send(protocol::encode(&request())?).await?;
    assert!(matches!(answer(&mut connection).await?, Answer::Edges(_)));
    drop(input);
    assert!(child.wait()?.success());
    Ok(())
}
