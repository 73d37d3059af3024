//! Managed memory that is attached to a stream, to the host, or to nobody in particular.

use crate::environment::LENGTH;
use crate::world::World;
use anabranch::{MemoryAttachment, Status};
use proptest::prelude::*;

/// Fills managed memory in a stream, attaches it to another one, copies it in the first, and drops it.
#[derive(Clone, Debug)]
pub(crate) struct Managed {
    stream: usize,
    attached: usize,
    to: usize,
    value: u32,
    attachment: MemoryAttachment,
    read: bool,
}

pub(crate) fn managed() -> impl Strategy<Value = Managed> {
    use MemoryAttachment::{Global, Host, Single};
    let attachments = prop::sample::select(vec![Global, Host, Single, Single]);
    (0..4usize, 0..4usize, 0..4usize, any::<u32>(), attachments, any::<bool>()).prop_map(
        |(stream, attached, to, value, attachment, read)| Managed { stream, attached, to, value, attachment, read },
    )
}

impl World<'_> {
    pub(crate) fn managed(&mut self, managed: &Managed) {
        let Managed { value, attachment, .. } = *managed;
        let (stream, attached) = self.pair([managed.stream, managed.attached]);
        let to = self.buffer(&stream, managed.to);
        if managed.read {
            self.let_go();
        }
        let place = &mut self.places[stream.device];
        let slot = &mut place.buffers[to];
        let mut memory = place.context.allocate_managed::<u32>(LENGTH).unwrap();
        stream.stream.fill(&mut memory, value).unwrap();
        attached.stream.attach(&mut memory, attachment).unwrap();
        let is_usable = match attachment {
            MemoryAttachment::Global => true,
            MemoryAttachment::Host => false,
            MemoryAttachment::Single => stream.stream == attached.stream,
        };
        let copied = stream.stream.copy(slot.buffer.as_mut().unwrap(), &memory);
        assert_eq!(copied.map_err(|error| error.status()).err(), (!is_usable).then_some(Status::ILLEGAL_STATE));
        if is_usable {
            self.memories[slot.number].fill(value);
        }
        if managed.read {
            memory.read(|words| assert_eq!(words, [value; LENGTH], "in managed memory")).unwrap();
        }
    }
}
