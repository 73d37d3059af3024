//! Access of the host to memory, and scopes in which work borrows memory of the host.

use super::memory::Memory;
use super::told::{contents, elements, plain, told};
use super::{Answer, Front, FrontCall};
use anabranch::Result;

/// Writes a whole buffer.
fn write(memory: &mut [u32], seed: u32) {
    memory.copy_from_slice(&elements(memory.len(), seed));
}

impl Front {
    pub(super) fn host_access_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            // What an executable graph retained is released in the background: then slices are refused for a while.
            C::HostRead { memory } => match (self.objects.memory.get(memory)?, self.has_dropped_executables) {
                (Memory::Device(_), _) => return None,
                (Memory::Pinned(buffer), false) => told(buffer.as_slice(), contents),
                (Memory::Managed(buffer), false) => told(buffer.as_slice(), contents),
                (Memory::Pinned(buffer), true) => told(buffer.read(contents), |text| text),
                (Memory::Managed(buffer), true) => told(buffer.read(contents), |text| text),
            },
            C::HostWrite { memory, seed } => {
                let change = |slice: &mut [u32]| write(slice, *seed);
                plain(match (self.objects.memory.get_mut(memory)?, self.has_dropped_executables) {
                    (Memory::Device(_), _) => return None,
                    (Memory::Pinned(buffer), false) => buffer.as_mut_slice().map(change),
                    (Memory::Managed(buffer), false) => buffer.as_mut_slice().map(change),
                    (Memory::Pinned(buffer), true) => buffer.write(change),
                    (Memory::Managed(buffer), true) => buffer.write(change),
                })
            }
            C::ReadWhile { memory, body } => {
                let taken = self.objects.memory.remove(memory)?;
                let mut read = |slice: &[u32]| format!("{} {{{}}}", contents(slice), self.body(body));
                let result = match &taken {
                    Memory::Device(_) => None,
                    Memory::Pinned(buffer) => Some(buffer.read(&mut read)),
                    Memory::Managed(buffer) => Some(buffer.read(&mut read)),
                };
                self.objects.memory.insert(*memory, taken);
                told(result?, |text| text)
            }
            C::WriteWhile { memory, seed, body } => {
                let mut taken = self.objects.memory.remove(memory)?;
                let change = |slice: &mut [u32]| {
                    write(slice, *seed);
                    format!("{{{}}}", self.body(body))
                };
                let result = match &mut taken {
                    Memory::Device(_) => None,
                    Memory::Pinned(buffer) => Some(buffer.write(change)),
                    Memory::Managed(buffer) => Some(buffer.write(change)),
                };
                self.objects.memory.insert(*memory, taken);
                told(result?, |text| text)
            }
            C::Scope { stream, other, to, from, seed, body } => {
                let stream = self.stream(*stream)?;
                let other = match other {
                    Some(other) => Some(self.stream(*other)?),
                    None => None,
                };
                let source = elements(usize::from(to.end.saturating_sub(to.start)), *seed);
                let mut destination = vec![0; usize::from(from.end.saturating_sub(from.start))];
                let scoped: Result<String> = self.with_parts(to, from, |front, to, from| {
                    stream.sync_scope(|scope| {
                        scope.copy_from_host(to, &source)?;
                        match &other {
                            Some(other) => scope.on(other)?.copy_to_host(&mut destination, from)?,
                            None => scope.copy_to_host(&mut destination, from)?,
                        }
                        let text = front.body(body);
                        // The scope waits for its streams.
                        front.set_signals();
                        Ok(text)
                    })
                })?;
                told(scoped, |text| format!("{} {{{text}}}", contents(&destination)))
            }
            _ => return None,
        })
    }
}
