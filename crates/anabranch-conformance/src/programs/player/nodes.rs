//! What nodes do, as the driver takes it and as it is printed.

use super::super::call::{NodeSpec, ValueSpec};
use super::super::slots::{ContextSlot, EventSlot, GraphSlot};
use super::harness::{BYTES, OPEN};
use super::memory::fill_pattern;
use super::objects::{MemoryKind, live};
use super::{Stage, graphs};
use anabranch::hal::{
    AllocationNode, ConditionalKind, ConditionalNode, Copy3d, CopyPlace, DeviceOrdinal, DevicePointer, EventHandle,
    FillNode, GraphHandle, KernelNode, NodeParameters, Value, ValueOperation, WaitValueFlags, WriteValueFlags,
};

impl Stage {
    /// The parameters of a node of a graph, or `None` if an object does not exist or if the node's work is not defined.
    pub(super) fn parameters(
        &mut self,
        graph: GraphSlot,
        context: ContextSlot,
        spec: &NodeSpec,
    ) -> Option<NodeParameters> {
        Some(match spec {
            NodeSpec::Empty => NodeParameters::Empty,
            NodeSpec::Kernel(kernel) => NodeParameters::Kernel(self.kernel(context, kernel)),
            NodeSpec::Copy { from, to, region, extent } => {
                NodeParameters::Copy(self.copy_3d(context, *from, *to, *region, *extent))
            }
            NodeSpec::Fill { region, width, count, rows, pitch, odd } => {
                let pattern = fill_pattern(*region, *width);
                let address = self.harness.target(context, super::super::call::Place::Device, *region);
                NodeParameters::Fill(FillNode {
                    address: DevicePointer(address).byte_add(usize::from(*odd)),
                    pitch: usize::from(*pitch),
                    pattern,
                    width: usize::from(*count).min(16 / pattern.width()),
                    height: usize::from(*rows).min(2),
                })
            }
            NodeSpec::Host(number) => NodeParameters::Host(self.repeatable(*number).key()),
            NodeSpec::Child(child) => {
                let (handle, _) = self.objects.graph(*child).filter(|_| self.exists(*child))?;
                // A graph inside of itself crashes drivers.
                if self.objects.outermost(*child) == self.objects.outermost(graph) {
                    return None;
                }
                NodeParameters::Child(handle.handle())
            }
            NodeSpec::EventRecord(event) => NodeParameters::EventRecord(self.event_in_graph(*event)?),
            NodeSpec::EventWait(event) => NodeParameters::EventWait(self.event_in_graph(*event)?),
            NodeSpec::In(context, work) => self.parameters(graph, *context, work)?,
            NodeSpec::Allocate { bytes, .. } | NodeSpec::AllocateShared { bytes, .. } => {
                let is_shared = matches!(spec, NodeSpec::AllocateShared { .. });
                let other = self.harness.device(ContextSlot(1 - context.0 % 2));
                NodeParameters::Allocate(AllocationNode {
                    device: self.harness.device(context),
                    bytes: *bytes,
                    access: if is_shared { vec![other] } else { vec![] },
                    address: DevicePointer::NULL,
                })
            }
            NodeSpec::Free(None) => NodeParameters::Free(DevicePointer::NULL),
            NodeSpec::Free(Some(memory)) => {
                let memory = self.objects.memory.get(memory).filter(|memory| !memory.is_gone);
                let memory = memory.filter(|memory| memory.kind == MemoryKind::Graph)?;
                NodeParameters::Free(memory.address)
            }
            NodeSpec::Values(operations) => {
                let operation = |spec: &ValueSpec| self.value_operation(context, *spec);
                NodeParameters::ValueOperations(operations.iter().map(operation).collect())
            }
            NodeSpec::Conditional { value, kind, bodies, .. } => {
                let (handle, _, default) = *self.objects.conditionals.get(value)?;
                // What is not set is not always 0, and a loop over anything else never ends.
                if default.is_none() || (*kind == ConditionalKind::While && default != Some(0)) {
                    return None;
                }
                let (kind, body_count) = (*kind, *bodies);
                NodeParameters::Conditional(ConditionalNode { handle, kind, body_count, bodies: vec![] })
            }
        })
    }

    fn event_in_graph(&mut self, slot: EventSlot) -> Option<EventHandle> {
        let (event, _) = self.objects.event(Some(slot))?;
        self.objects.events.get_mut(&slot)?.is_in_graph = true;
        Some(event.handle())
    }

    fn value_operation(&self, context: ContextSlot, spec: ValueSpec) -> ValueOperation {
        let open = self.harness.context(context).device.byte_add(OPEN);
        let (value, flags) = (Value::U32(1), WaitValueFlags::GREATER_OR_EQUAL);
        match spec {
            ValueSpec::WaitOpen => ValueOperation::Wait { address: open, value, flags },
            ValueSpec::WaitOdd => ValueOperation::Wait { address: open.byte_add(1), value, flags },
            ValueSpec::Write(mark) => {
                let (address, value) = self.mark(context, mark);
                ValueOperation::Write { address, value: Value::U32(value), flags: WriteValueFlags::empty() }
            }
        }
    }

    /// Parameters that were read back, without what differs between machines.
    pub(super) fn parameters_text(&self, context: ContextSlot, parameters: &NodeParameters) -> String {
        match parameters {
            NodeParameters::Kernel(kernel) => self.kernel_text(kernel),
            NodeParameters::Copy(copy) => self.copy_text(copy),
            NodeParameters::Fill(fill) => {
                let pitch = if fill.height > 1 { format!(" pitch {}", fill.pitch) } else { String::new() };
                let address = self.address_text(fill.address.0);
                format!("{address} {:?} {}x{}{pitch}", fill.pattern, fill.width, fill.height)
            }
            NodeParameters::Host(key) => {
                let known = self.objects.host_work.iter().position(|work| work.key() == *key);
                known.map_or("host ?".to_owned(), |index| format!("host {index}"))
            }
            NodeParameters::Child(child) => format!("child {}", self.child_text(context, *child)),
            NodeParameters::Empty => "empty".to_owned(),
            NodeParameters::EventWait(event) => format!("wait {}", self.event_text(*event)),
            NodeParameters::EventRecord(event) => format!("record {}", self.event_text(*event)),
            NodeParameters::Allocate(node) => {
                let access: Vec<u32> = node.access.iter().map(|&device| self.device_number(device)).collect();
                format!("allocate {} {} access {access:?}", node.bytes, self.address_text(node.address.0))
            }
            NodeParameters::Free(address) => format!("free {}", self.address_text(address.0)),
            NodeParameters::ValueOperations(operations) => {
                let text = |operation: &ValueOperation| match operation {
                    ValueOperation::Wait { address, value, flags } => {
                        format!("wait {} {value:?} {:#x}", self.address_text(address.0), flags.bits())
                    }
                    ValueOperation::Write { address, value, flags } => {
                        format!("write {} {value:?} {:#x}", self.address_text(address.0), flags.bits())
                    }
                    // No program has others.
                    other => format!("{other:?}"),
                };
                operations.iter().map(text).collect::<Vec<_>>().join(", ")
            }
            NodeParameters::Conditional(node) => format!("{:?} {}", node.kind, node.body_count),
            _ => "?".to_owned(),
        }
    }

    /// The number of a device that is the same on every machine.
    fn device_number(&self, device: DeviceOrdinal) -> u32 {
        [0, 1].into_iter().find(|&number| self.harness.ordinal(number) == device).unwrap_or(device.0)
    }

    fn kernel_text(&self, kernel: &KernelNode) -> String {
        let names = self.harness.contexts.iter().find_map(|context| match kernel.function {
            function if function == context.count_up => Some("count_up"),
            function if function == context.add => Some("add"),
            _ => None,
        });
        let argument = |value: &Vec<u8>| match <[u8; 8]>::try_from(&value[..]) {
            Ok(address) => self.address_text(u64::from_ne_bytes(address)),
            Err(_) => format!("{value:?}"),
        };
        let arguments: Vec<String> = kernel.arguments.iter().map(argument).collect();
        let mut text = format!("{} grid {:?} block {:?}", names.unwrap_or("?"), kernel.grid, kernel.block);
        text.push_str(&format!(" shared {} arguments {}", kernel.dynamic_shared_bytes, arguments.join(",")));
        text.push_str(if kernel.cooperative { " cooperative" } else { "" });
        kernel.cluster.map_or(text.clone(), |cluster| format!("{text} cluster {cluster:?}"))
    }

    fn copy_text(&self, copy: &Copy3d) -> String {
        let [_, rows, slices] = copy.extent;
        let place = |place: &CopyPlace| {
            let mut text = self.address_text(place.address);
            text.push_str(if place.host { " host" } else { "" });
            if rows > 1 || slices > 1 {
                text.push_str(&format!(" pitch {}", place.pitch));
            }
            if slices > 1 {
                text.push_str(&format!(" height {}", place.height));
            }
            if place.origin == [0; 3] { text } else { format!("{text} at {:?}", place.origin) }
        };
        format!("{} to {} {:?}", place(&copy.source), place(&copy.destination), copy.extent)
    }

    fn event_text(&self, event: EventHandle) -> String {
        let known = self
            .objects
            .events
            .keys()
            .find(|&&slot| self.objects.event(Some(slot)).is_some_and(|(known, _)| known.handle() == event));
        known.map_or("?".to_owned(), ToString::to_string)
    }

    fn child_text(&self, context: ContextSlot, child: GraphHandle) -> String {
        graphs::summary(&*self.driver, &self.harness.call(context), live(child))
            .unwrap_or_else(|status| format!("failed {}", status.0))
    }

    /// An address relative to the buffer that it is in.
    pub(super) fn address_text(&self, address: u64) -> String {
        let devices = self.harness.contexts.iter().zip(["c0", "c1"]).map(|(context, name)| (name, context.device.0));
        let hosts = [("pinned", self.harness.pinned as u64), ("pageable", self.harness.pageable as u64)];
        let found = devices.chain(hosts).find(|(_, start)| (*start..*start + BYTES as u64).contains(&address));
        match found {
            Some((name, start)) => format!("{name}+{}", address - start),
            None if address == 0 => "null".to_owned(),
            None => {
                let known =
                    self.objects.memory.iter().find(|(_, memory)| memory.address.0 == address && !memory.is_gone);
                known.map_or("?".to_owned(), |(slot, _)| slot.to_string())
            }
        }
    }
}
