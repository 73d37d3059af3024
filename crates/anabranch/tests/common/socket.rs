//! Words and file descriptors through a socket.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

const MOST: usize = 4;

/// Sends words, and as many descriptors as there are.
pub(crate) fn send(socket: &UnixStream, words: &str, descriptors: &[OwnedFd]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    }
    let sent = sendmsg(socket, &[IoSlice::new(words.as_bytes())], &mut control, SendFlags::empty()).unwrap();
    assert_eq!(sent, words.len());
}

/// The words and the descriptors of one [`send`].
pub(crate) fn receive(socket: &UnixStream) -> (String, Vec<OwnedFd>) {
    let (mut bytes, mut space) = ([0; 1024], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty()).unwrap();
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    (String::from_utf8_lossy(&bytes[..received.bytes]).into_owned(), descriptors)
}
