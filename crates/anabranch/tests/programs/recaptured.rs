//! Graphs made by hand that are captured into or captured again, and executable graphs that are updated from captures.

use crate::captured::{Effect, two};
use crate::edited::{Work, work};
use crate::environment::is_on_cuda;
use crate::rewired::MOST_NODES;
use crate::streams::StreamSlot;
use crate::tally::note;
use crate::world::{Place, World};
use anabranch::{CaptureMode, CaptureScope, Node, RecaptureChanges, Result, Status, Stream};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) struct Recaptured {
    graph: usize,
    way: Way,
    work: Vec<Work>,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Captures work behind the nodes of a graph.
    Into,
    /// Captures the nodes of a graph again with other memory, and may update the executable graph.
    Again { updates: bool },
    /// Updates an executable graph from a graph that is captured anew.
    Anew,
}

pub(crate) fn recaptured() -> impl Strategy<Value = Recaptured> {
    let way = prop_oneof![
        1 => Just(Way::Into),
        2 => any::<bool>().prop_map(|updates| Way::Again { updates }),
        2 => Just(Way::Anew),
    ];
    (0..4usize, way, prop::collection::vec(work(), MOST_NODES)).prop_map(|(graph, way, work)| Recaptured {
        graph,
        way,
        work,
    })
}

/// Captures what `effects` says.
fn capture(place: &mut Place, stream: &Stream, effects: &[(Effect, [usize; 2])]) -> Result<()> {
    for (effect, buffers) in effects {
        let [to, from] = *buffers;
        match *effect {
            Effect::Fill { value, .. } => stream.fill(place.buffers[to].buffer.as_mut().unwrap(), value)?,
            _ => {
                let [to, from] = two(place, to, from).unwrap();
                stream.copy(to, &*from)?;
            }
        }
    }
    Ok(())
}

impl World<'_> {
    /// The effects of work, each of the kind that is wanted in its place, with the places of their buffers. `None`: a copy would
    /// have one buffer.
    fn effects_of(
        &mut self,
        stream: &StreamSlot,
        work: &[Work],
        are_copies: &[bool],
    ) -> Option<Vec<(Effect, [usize; 2])>> {
        let mut effects = Vec::new();
        for (work, is_copy) in work.iter().zip(are_copies) {
            let from = work.from.unwrap_or(work.to + 1);
            let [to, from] = [work.to, from].map(|buffer| self.buffer(stream, buffer));
            let buffers = &self.places[stream.device].buffers;
            let effect = match is_copy {
                true if to == from => return None,
                true => Effect::Copy { to: buffers[to].number, from: buffers[from].number },
                false => Effect::Fill { to: buffers[to].number, value: work.value },
            };
            effects.push((effect, [to, from]));
        }
        Some(effects)
    }

    pub(crate) fn recaptured(&mut self, recaptured: &Recaptured) {
        let Some(place) = self.made_by_hand(recaptured.graph) else { return };
        // It is not among the graphs while buffers are made for it.
        let mut graph = self.graphs.swap_remove(place);
        if let Some(source) = &mut graph.source {
            let stream = self.own_stream(source.device);
            let kinds = |effects: &[Effect]| effects.iter().map(Effect::is_copy).collect::<Vec<_>>();
            let are_copies: Vec<bool> = match recaptured.way {
                Way::Into => {
                    recaptured.work[source.nodes.len()..].iter().take(2).map(|work| work.from.is_some()).collect()
                }
                Way::Again { .. } => kinds(&source.effects),
                Way::Anew => kinds(&graph.effects),
            };
            if let Some(work) = self.effects_of(&stream, &recaptured.work, &are_copies) {
                let (place, mode) = (&mut self.places[source.device], CaptureMode::ThreadLocal);
                let effects: Vec<Effect> = work.iter().map(|(effect, _)| effect.clone()).collect();
                match recaptured.way {
                    Way::Into => {
                        let last: Vec<Node> = source.nodes.last().copied().into_iter().collect();
                        let body = |scope: &CaptureScope<'_>| capture(place, scope.stream(), &work);
                        stream.stream.capture_into(&mut source.graph, &last, mode, body).unwrap();
                        let mut nodes = source.graph.nodes().unwrap();
                        nodes.retain(|node| !source.nodes.contains(node));
                        nodes.sort_by_key(|node| node.number());
                        source.nodes.extend(nodes);
                        source.effects.extend(effects);
                        note("graphs captured into");
                    }
                    Way::Again { updates } => {
                        let changes = RecaptureChanges::Any;
                        let captured = stream
                            .stream
                            .recapture(&mut source.graph, changes, mode, |scope| capture(place, scope.stream(), &work));
                        match captured {
                            Ok(_) => {
                                source.effects = effects;
                                note("graphs captured again");
                                if updates {
                                    graph.update();
                                }
                            }
                            Err(refused) => {
                                let expected = [Status::INVALID_VALUE, Status::STREAM_CAPTURE_INVALIDATED];
                                // Drivers before CUDA 13.3 cannot do this.
                                let is_old = is_on_cuda() && refused.status() == Status::NOT_SUPPORTED;
                                assert!(is_old || expected.contains(&refused.status()), "{refused}");
                                note("graphs not captured again");
                                // Some of its nodes may have changed.
                                graph.source = None;
                            }
                        }
                    }
                    Way::Anew => {
                        let anew = stream.stream.capture(mode, |scope| capture(place, scope.stream(), &work)).unwrap();
                        match graph.executable.update(&anew) {
                            Ok(()) => {
                                graph.effects = effects;
                                note("updates from captures");
                            }
                            Err(refused) => {
                                assert_eq!(refused.error().status(), Status::GRAPH_EXEC_UPDATE_FAILURE);
                                note("updates from captures refused");
                            }
                        }
                    }
                }
            }
        }
        self.graphs.push(graph);
    }
}
