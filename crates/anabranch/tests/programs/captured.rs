//! Graphs of programs.

use crate::edited::Source;
use crate::environment::{LENGTH, combined, for_each, is_on_cuda};
use crate::operation::Captured;
use crate::rewired::MOST_NODES;
use crate::streams::StreamSlot;
use crate::world::{Number, Place, World};
use anabranch::{Buffer, CaptureMode, ExecutableGraph, Kernel, Node, Result, Stream};
use std::slice::GetDisjointMutError;

/// What a graph does, with the numbers of the contents that it does it to.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Combine { to: Number, left: Number, right: Number, value: u32 },
    Copy { to: Number, from: Number },
    Fill { to: Number, value: u32 },
}

/// A graph that was captured.
pub(crate) struct Graph {
    pub(crate) executable: ExecutableGraph,
    pub(crate) effects: Vec<Effect>,
    /// Which of them it does not have now.
    pub(crate) disabled: Vec<usize>,
    /// The nodes that have the effects, if it was made by hand: of its graph, which may have removed some of them since.
    pub(crate) nodes: Vec<Node>,
    /// If it was made by hand.
    pub(crate) source: Option<Source>,
    /// It has allocations of its own.
    pub(crate) allocates: bool,
}

impl Graph {
    /// How many allocations it keeps at most: those of each effect, and of those of the graph that it was made from, which may
    /// have more nodes by now.
    pub(crate) fn most_allocations(&self) -> usize {
        4 * self.effects.len().max(MOST_NODES)
    }
}

/// The buffer to write and the two to read, where they are different.
pub(crate) fn three(place: &mut Place, to: usize, left: usize, right: usize) -> Option<[&mut Buffer<u32>; 3]> {
    let slots: std::result::Result<_, GetDisjointMutError> = place.buffers.get_disjoint_mut([to, left, right]);
    slots.ok().map(|slots| slots.map(|slot| slot.buffer.as_mut().unwrap()))
}

/// Two different buffers.
pub(crate) fn two(place: &mut Place, to: usize, from: usize) -> Option<[&mut Buffer<u32>; 2]> {
    let slots: std::result::Result<_, GetDisjointMutError> = place.buffers.get_disjoint_mut([to, from]);
    slots.ok().map(|slots| slots.map(|slot| slot.buffer.as_mut().unwrap()))
}

/// Queues the kernel, and says whether the buffers allow it: it reads what it does not write.
pub(crate) fn combine(
    place: &mut Place,
    kernel: &Kernel,
    stream: &Stream,
    [to, left, right]: [usize; 3],
    value: u32,
) -> Result<bool> {
    let config = for_each(LENGTH);
    if let Some([to, left, right]) = three(place, to, left, right) {
        // SAFETY: the kernel reads its three buffers, which have the same length, and writes the first.
        unsafe { stream.launch(kernel, &config, (to, &*left, &*right, value)) }?;
    } else if left == right
        && let Some([to, both]) = two(place, to, left)
    {
        // SAFETY: as above.
        unsafe { stream.launch(kernel, &config, (to, &*both, &*both, value)) }?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Captures some of the work, and notes what it does.
fn capture(
    place: &mut Place,
    kernel: &Kernel,
    stream: &Stream,
    work: &Captured,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let buffers = place.buffers.len();
    let pins = place.pinned.len();
    match *work {
        Captured::Combine { to, left, right, value } => {
            let [to, left, right] = [to, left, right].map(|buffer| buffer % buffers);
            if combine(place, kernel, stream, [to, left, right], value)? {
                let [to, left, right] = [to, left, right].map(|buffer| place.buffers[buffer].number);
                effects.push(Effect::Combine { to, left, right, value });
            }
        }
        Captured::Copy { to, from } => {
            let [to, from] = [to, from].map(|buffer| buffer % buffers);
            if let Some([destination, source]) = two(place, to, from) {
                stream.copy(destination, &*source)?;
                effects.push(Effect::Copy { to: place.buffers[to].number, from: place.buffers[from].number });
            }
        }
        Captured::Fill { to, value } => {
            let slot = &mut place.buffers[to % buffers];
            stream.fill(slot.buffer.as_mut().unwrap(), value)?;
            effects.push(Effect::Fill { to: slot.number, value });
        }
        Captured::ToPinned { pinned, from } => {
            let (to, from) = (&mut place.pinned[pinned % pins], &place.buffers[from % buffers]);
            stream.copy(&mut to.buffer, from.buffer.as_ref().unwrap())?;
            effects.push(Effect::Copy { to: to.number, from: from.number });
        }
        Captured::FromPinned { to, pinned } => {
            let (to, from) = (&mut place.buffers[to % buffers], &place.pinned[pinned % pins]);
            stream.copy(to.buffer.as_mut().unwrap(), &from.buffer)?;
            effects.push(Effect::Copy { to: to.number, from: from.number });
        }
        Captured::Temporary { to, from, value } => {
            let [to, from] = [to, from].map(|buffer| buffer % buffers);
            if let Some([destination, source]) = two(place, to, from) {
                // All of it is written first: by a fill, and then by the kernel.
                let mut memory = stream.allocate_zeroed::<u32>(source.len())?;
                let config = for_each(LENGTH);
                // SAFETY: as in `combine`.
                unsafe { stream.launch(kernel, &config, (&mut memory, &*source, &*source, value)) }?;
                stream.copy(destination, &memory)?;
                let [to, from] = [to, from].map(|buffer| place.buffers[buffer].number);
                if to != from {
                    effects.push(Effect::Fill { to, value: 0 });
                    effects.push(Effect::Combine { to, left: from, right: from, value });
                }
            }
        }
    }
    Ok(())
}

impl World<'_> {
    /// Captures work of a stream, and of another one of its device where there is one.
    pub(crate) fn capture(&mut self, stream: &StreamSlot, other: &StreamSlot, work: &[(bool, Captured)]) {
        let (stream, other) = &self.to_capture(stream, other);
        let device = stream.device;
        // What is allocated inside of the capture is the graph's.
        for buffer in 0..self.places[device].buffers.len() {
            self.buffer(stream, buffer);
        }
        let forks = other.device == device && other.stream != stream.stream;
        let (place, kernel) = (&mut self.places[device], &self.kernels[device].combine);
        let mut effects = Vec::new();
        let executable = stream.stream.capture_executable(CaptureMode::ThreadLocal, |scope| {
            if forks {
                scope.fork(&other.stream)?;
            }
            for (on_other, work) in work {
                let stream = if *on_other && forks { &other.stream } else { scope.stream() };
                capture(place, kernel, stream, work, &mut effects)?;
            }
            if forks { scope.join(&other.stream) } else { Ok(()) }
        });
        let (executable, disabled, nodes) = (executable.unwrap(), Vec::new(), Vec::new());
        let allocates = work.iter().any(|(_, work)| matches!(work, Captured::Temporary { .. }));
        self.graphs.push(Graph { executable, effects, disabled, nodes, source: None, allocates });
    }

    /// To be called before a graph is launched. NVIDIA's driver may wait in the launch of one that allocates memory for an earlier
    /// launch in another stream, which may be held.
    pub(crate) fn let_go_for(&mut self, graph: usize) {
        if is_on_cuda() && self.graphs[graph].allocates {
            self.let_go();
        }
    }

    /// What a launch of a graph does.
    pub(crate) fn apply(&mut self, graph: usize) {
        let Graph { effects, disabled, .. } = &self.graphs[graph];
        let effects = effects.iter().enumerate().filter(|(index, _)| !disabled.contains(index));
        let effects: Vec<Effect> = effects.map(|(_, effect)| effect.clone()).collect();
        self.have_effects(&effects);
    }

    pub(crate) fn have_effects(&mut self, effects: &[Effect]) {
        let memories = &mut self.memories;
        for effect in effects {
            match *effect {
                Effect::Combine { to, left, right, value } => {
                    let (left, right) = (memories[left], memories[right]);
                    for (index, word) in memories[to].iter_mut().enumerate() {
                        *word = combined(*word, left[index], right[index], value);
                    }
                }
                Effect::Copy { to, from } => memories[to] = memories[from],
                Effect::Fill { to, value } => memories[to].fill(value),
            }
        }
    }
}
