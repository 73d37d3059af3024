//! What clients and the server say to each other: frames with their length in front, in the encoding of `postcard`.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use tokio::net::TcpStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// What a client sends. One request of a connection is worked on at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Find the edges in a picture in grey, of `width` times `height` bytes.
    Edges { width: u32, height: u32, pixels: Vec<u8>, inject: Option<Injection> },
    /// The answer to the request before is not wanted any more.
    Cancel,
}

/// What a server that allows it does to a request on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Injection {
    /// A host function panics in the midst of its work.
    Panic,
    /// Its work is stalled for so many milliseconds.
    Stall(u64),
    /// A kernel traps, which loses the context, and the requests of others that are in it. On the host device only.
    Fault,
}

/// What the server answers. Every request gets one, unless its connection breaks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Edges(Vec<u8>),
    Failed { reason: Reason, message: String },
}

/// Why a request has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Reason {
    /// The request makes no sense.
    BadRequest,
    /// The client took it back.
    Cancelled,
    /// It was not done in time.
    TimedOut,
    /// Its work has failed.
    WorkFailed,
    /// The context was lost, by this request or another. The next one gets a new context, if there is one to be had.
    DeviceLost,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::BadRequest => "bad request",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::WorkFailed => "work failed",
            Self::DeviceLost => "device lost",
        })
    }
}

pub(crate) type Connection = Framed<TcpStream, LengthDelimitedCodec>;

/// What a frame has beside the pixels.
const REST: usize = 64;

/// A connection for pictures of at most `largest` pixels.
pub(crate) fn connection(stream: TcpStream, largest: u32) -> Connection {
    LengthDelimitedCodec::builder().max_frame_length(largest as usize + REST).new_framed(stream)
}

pub(crate) fn encode<T: Serialize>(message: &T) -> io::Result<Bytes> {
    postcard::to_stdvec(message).map(Bytes::from).map_err(io::Error::other)
}

pub(crate) fn decode<T: DeserializeOwned>(frame: &[u8]) -> io::Result<T> {
    postcard::from_bytes(frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
