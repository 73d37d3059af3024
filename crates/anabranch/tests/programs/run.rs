//! Running programs.

use crate::awaited::poll_once;
use crate::captured::{combine, three, two};
use crate::environment::{Environment, LENGTH, combined, for_each, is_on_cuda};
use crate::operation::{HostFunctionKind, Operation, Program, Step, Thread};
use crate::world::{Given, ON_PURPOSE, Place, World, panic_on_purpose};
use anabranch::{MemorySyncDomain, Status};
use futures::executor::block_on;
use futures::{FutureExt, TryFutureExt};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a program. Whatever goes wrong is a panic.
pub(crate) fn run(environment: &Environment, program: &Program) {
    std::thread::scope(|scope| {
        let mut threads = program.threads.iter();
        let first = threads.next();
        let others: Vec<_> = threads.map(|thread| scope.spawn(|| run_thread(environment, program, thread))).collect();
        if let Some(thread) = first {
            run_thread(environment, program, thread);
        }
        for thread in others {
            if let Err(payload) = thread.join() {
                std::panic::resume_unwind(payload);
            }
        }
    });
    environment.assert_clean();
}

fn run_thread(environment: &Environment, program: &Program, thread: &Thread) {
    let loss = thread.loss.as_ref().filter(|_| !is_on_cuda());
    let contexts = match loss {
        None => environment.contexts.clone(),
        Some(_) => environment.contexts_to_lose(),
    };
    let is_alone = loss.is_some() || program.threads.len() == 1;
    let mut world = World::new(environment, contexts, &program.streams, is_alone);
    world.run(&thread.steps);
    match loss {
        None => world.finish(),
        Some(loss) => world.lose(loss),
    }
}

/// Halves of a buffer, to write the second and read the first.
pub(crate) fn half() -> usize {
    LENGTH / 2
}

impl World<'_> {
    /// Does one operation after the other.
    pub(crate) fn run(&mut self, steps: &[Step]) {
        for Step { elsewhere, operation } in steps {
            if *elsewhere {
                std::thread::scope(|scope| scope.spawn(|| self.step(operation)).join()).unwrap();
            } else {
                self.step(operation);
            }
        }
    }

    #[allow(clippy::too_many_lines, reason = "it is a list")]
    pub(crate) fn step(&mut self, operation: &Operation) {
        use Operation as O;
        if is_on_cuda() && operation.is_for_host_devices() {
            return;
        }
        match *operation {
            O::Combine { stream, to, left, right, value } => {
                let stream = self.stream(stream);
                let buffers = [to, left, right].map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                let kernel = &self.kernels[stream.device].combine;
                if combine(place, kernel, &stream.stream, buffers, value).unwrap() {
                    let [to, left, right] = buffers.map(|buffer| place.buffers[buffer].number);
                    let (left, right) = (self.memories[left], self.memories[right]);
                    for (index, word) in self.memories[to].iter_mut().enumerate() {
                        *word = combined(*word, left[index], right[index], value);
                    }
                }
            }
            O::CombineHalves { stream, to, value } => {
                let stream = self.stream(stream);
                let to = self.buffer(&stream, to);
                let slot = &mut self.places[stream.device].buffers[to];
                let (first, second) = slot.buffer.as_mut().unwrap().slice_mut(..).unwrap().split_at(half()).unwrap();
                let kernel = &self.kernels[stream.device].combine;
                let arguments = (second, first.as_slice(), first.as_slice(), value);
                // SAFETY: the kernel reads all three slices, which have the same length, and writes the first.
                unsafe { stream.stream.launch(kernel, &for_each(half()), arguments) }.unwrap();
                let words = &mut self.memories[slot.number];
                for index in 0..half() {
                    words[half() + index] = combined(words[half() + index], words[index], words[index], value);
                }
            }
            O::Copy { stream, to, from } => {
                let stream = self.stream(stream);
                let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                if let Some([destination, source]) = two(place, to, from) {
                    stream.stream.copy(destination, &*source).unwrap();
                    self.memories[place.buffers[to].number] = self.memories[place.buffers[from].number];
                }
            }
            O::CopyHalf { stream, to, from } => {
                let stream = self.stream(stream);
                let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                if let Some([destination, source]) = two(place, to, from) {
                    let (destination, source) = (destination.slice_mut(half()..), source.slice(..half()));
                    stream.stream.copy(destination.unwrap(), source.unwrap()).unwrap();
                } else {
                    let all = place.buffers[to].buffer.as_mut().unwrap().slice_mut(..).unwrap();
                    let (first, second) = all.split_at(half()).unwrap();
                    stream.stream.copy(second, first.as_slice()).unwrap();
                }
                let source = self.memories[place.buffers[from].number];
                self.memories[place.buffers[to].number][half()..].copy_from_slice(&source[..half()]);
            }
            O::CopyPeer { stream, to, from_device, from } => self.copy_peer(stream, to, from_device, from),
            O::Fill { stream, to, value } => {
                let stream = self.stream(stream);
                let to = self.buffer(&stream, to);
                let slot = &mut self.places[stream.device].buffers[to];
                stream.stream.fill(slot.buffer.as_mut().unwrap(), value).unwrap();
                self.memories[slot.number].fill(value);
            }
            O::FillHalf { stream, to, value } => {
                let stream = self.stream(stream);
                let to = self.buffer(&stream, to);
                let slot = &mut self.places[stream.device].buffers[to];
                stream.stream.fill(slot.buffer.as_mut().unwrap().slice_mut(half()..).unwrap(), value).unwrap();
                self.memories[slot.number][half()..].fill(value);
            }
            O::Upload { stream, to, value } => {
                self.let_go();
                let stream = self.stream(stream);
                let words = std::array::from_fn(|index| value.wrapping_add(index as u32));
                if let Some(buffer) = stream.unless_panicked(stream.stream.upload(&words)) {
                    let number = self.remember(words);
                    self.put(&stream, to, buffer, number);
                }
            }
            O::Clone { stream, to, from } => {
                let stream = self.stream(stream);
                let from = self.buffer(&stream, from);
                let slot = &self.places[stream.device].buffers[from];
                let words = self.memories[slot.number];
                let buffer = stream.stream.clone_buffer(slot.buffer.as_ref().unwrap()).unwrap();
                let number = self.remember(words);
                self.put(&stream, to, buffer, number);
            }
            O::Read { stream, from } => self.read(&self.stream(stream), from),
            O::Renew { stream, to, from } => self.renew(&self.stream(stream), to, from),
            O::DropInHostFunction { stream, from, kind } => {
                let stream = self.stream(stream);
                let (buffer, _) = self.take(&stream, from);
                let stream = &stream.stream;
                let queued = match kind {
                    HostFunctionKind::Once => stream.launch_host_func(move || drop(buffer)),
                    HostFunctionKind::Repeatable => stream.launch_repeatable_host_func(move || _ = &buffer),
                    HostFunctionKind::Callback => stream.add_callback(move |_, _| drop(buffer)),
                };
                queued.unwrap();
            }
            O::ToPinned { stream, pinned, from } => {
                let stream = self.stream(stream);
                let (pinned, from) = (self.pinned(pinned), self.buffer(&stream, from));
                let Place { buffers, pinned: pins, .. } = &mut self.places[stream.device];
                stream.stream.copy(&mut pins[pinned].buffer, buffers[from].buffer.as_ref().unwrap()).unwrap();
                self.memories[pins[pinned].number] = self.memories[buffers[from].number];
            }
            O::FromPinned { stream, to, pinned } => {
                let stream = self.stream(stream);
                let (pinned, to) = (self.pinned(pinned), self.buffer(&stream, to));
                let Place { buffers, pinned: pins, .. } = &mut self.places[stream.device];
                stream.stream.copy(buffers[to].buffer.as_mut().unwrap(), &pins[pinned].buffer).unwrap();
                self.memories[buffers[to].number] = self.memories[pins[pinned].number];
            }
            O::BetweenPinned { stream, to, from } => {
                let (to, from) = (self.pinned(to), self.pinned(from));
                let stream = self.stream(stream);
                if to != from {
                    // The host waits for it.
                    self.let_go();
                    let [to, from] = self.places[stream.device].pinned.get_disjoint_mut([to, from]).unwrap();
                    stream.stream.copy(&mut to.buffer, &from.buffer).unwrap();
                    self.memories[to.number] = self.memories[from.number];
                }
            }
            O::HostWrite { stream, pinned, value } => {
                self.let_go();
                let (stream, pinned) = (self.stream(stream), self.pinned(pinned));
                let slot = &mut self.places[stream.device].pinned[pinned];
                slot.buffer.write(|words| words.fill(value)).unwrap();
                self.memories[slot.number].fill(value);
            }
            O::HostRead { stream, pinned } => self.read_pinned(self.stream(stream).device, pinned),
            O::RenewPinned { stream, pinned } => self.renew_pinned(&self.stream(stream), pinned),
            O::Record { stream, event } => {
                let stream = self.stream(stream);
                stream.stream.record(self.event(stream.device, event)).unwrap();
            }
            O::WaitEvent { stream, device, event } => {
                self.stream(stream).stream.wait_event(self.event(device, event)).unwrap();
            }
            O::MeetEvent { device, event, wait } => {
                let event = self.event(device, event).clone();
                if wait.is_some() {
                    self.let_go();
                }
                match wait {
                    None => _ = event.query().unwrap(),
                    Some(false) => event.synchronize().unwrap(),
                    Some(true) => block_on(event.completed()).unwrap(),
                }
            }
            O::RenewEvent { stream, event } => drop(self.renew_event(self.stream(stream).device, event)),
            O::WaitStream { stream, other } => {
                self.stream(stream).stream.wait_stream(&self.stream(other).stream).unwrap();
            }
            O::RenewStream { stream, kind } => drop(self.renew_stream(stream, kind)),
            O::RenewPool { stream } => drop(self.renew_pool(self.stream(stream).device)),
            O::Synchronize { stream } => {
                self.let_go();
                let stream = self.stream(stream);
                stream.unless_panicked(stream.stream.synchronize());
            }
            O::Query { stream } => {
                let stream = self.stream(stream);
                stream.unless_panicked(stream.stream.query());
            }
            O::Hold { stream } => self.hold(&self.stream(stream)),
            O::PanicInHostFunction { stream } => {
                let stream = self.stream(stream);
                stream.will_panic();
                stream.stream.launch_host_func(|| panic_on_purpose()).unwrap();
            }
            O::Scope { stream, other, to, from, value, panics } => {
                self.scope([stream, other], [to, from], value, panics)
            }
            O::Await { stream, checked, fate } => {
                let stream = self.stream(stream);
                let future =
                    if checked { stream.stream.checked_completion_future() } else { stream.stream.completion_future() };
                self.meet(stream, future.map(|result| result.map(|()| Vec::new())), fate);
            }
            O::UploadAsync { stream, value, fate } => {
                let stream = self.stream(stream);
                let words = std::array::from_fn(|index| value.wrapping_add(index as u32));
                let number = self.remember(words);
                let future = stream.stream.upload_async(words);
                self.meet(stream, future.map_ok(move |buffer| vec![Given::Buffer(number, buffer)]), fate);
            }
            O::DownloadAsync { stream, from, fate } => {
                let stream = self.stream(stream);
                let from = self.buffer(&stream, from);
                let slot = &self.places[stream.device].buffers[from];
                let expected = self.memories[slot.number];
                let future = stream.stream.download_async(slot.buffer.as_ref().unwrap());
                self.meet(stream, future.map_ok(move |found| vec![Given::Read(found, expected)]), fate);
            }
            O::FillAsync { stream, to, value, fate } => {
                let stream = self.stream(stream);
                let (buffer, number) = self.take(&stream, to);
                let future = stream.stream.fill_async(buffer, value);
                self.memories[number].fill(value);
                self.meet(stream, future.map_ok(move |buffer| vec![Given::Buffer(number, buffer)]), fate);
            }
            O::CopyAsync { stream, to, to_number, from, from_number, fate } => {
                self.copy_async(stream, (to, to_number), (from, from_number), fate);
            }
            O::LaunchAsync { stream, numbers, value, fate } => self.launch_async(stream, numbers, value, fate),
            O::HostReadAsync { stream, pinned, finishes } => {
                let (stream, pinned) = (self.stream(stream), self.pinned(pinned));
                if finishes {
                    self.let_go();
                }
                let slot = &self.places[stream.device].pinned[pinned];
                let mut future = Box::pin(slot.buffer.as_slice_async());
                let result = if finishes { Some(block_on(future)) } else { poll_once(&mut future) };
                match result {
                    None => {}
                    Some(Ok(words)) => assert_eq!(words, self.memories[slot.number], "in a pinned buffer"),
                    // A graph has it.
                    Some(Err(error)) => assert_eq!(error.status(), Status::ILLEGAL_STATE, "{error}"),
                }
            }
            O::Enqueue { stream, from, value, panics, fate } => self.enqueue(stream, from, value, panics, fate),
            O::Resume { future, fate } => {
                if !self.futures.is_empty() {
                    let future = self.futures.swap_remove(future % self.futures.len());
                    self.meet(future.stream, future.future, fate);
                }
            }
            O::Pipeline { stream, depth, chunks, taken } => self.pipeline(stream, depth, chunks, taken),
            O::Capture { stream, other, ref work } => {
                let (stream, other) = (self.stream(stream), self.stream(other));
                self.capture(&stream, &other, work);
            }
            O::Launch { stream, graph, awaited } => {
                if self.graphs.is_empty() {
                    return;
                }
                let (graph, stream) = (graph % self.graphs.len(), self.stream(stream));
                self.let_go_for(graph);
                let executable = &self.graphs[graph].executable;
                if awaited {
                    let future = executable.launch_async(&stream.stream);
                    self.let_go();
                    stream.unless_panicked(block_on(future));
                } else {
                    executable.launch(&stream.stream).unwrap();
                }
                self.apply(graph);
            }
            O::DropGraph { graph } => {
                if !self.graphs.is_empty() {
                    self.graphs.swap_remove(graph % self.graphs.len());
                }
            }
            O::Forget(ref forget) => self.forget(forget),
            O::Swap(ref swap) => self.swap(swap),
            O::Share(ref share) => self.share(share),
            O::Unwind(ref unwind) => self.unwind(unwind),
            O::Foreign(ref foreign) => self.foreign(foreign),
            O::Elements(ref elements) => self.elements(elements),
            O::Batched(ref batched) => self.batched(batched),
            O::Exchanged(ref exchanged) => self.exchanged(exchanged),
            O::Composed(ref composed) => self.composed(composed),
            O::Edited(ref edited) => self.edited(edited),
            O::Rewired(ref rewired) => self.rewired(rewired),
            O::Recaptured(ref recaptured) => self.recaptured(recaptured),
            O::Tangled(ref tangled) => self.tangled(tangled),
            O::Forked(ref forked) => self.forked(forked),
            O::Divided(ref divided) => self.divided(divided),
            O::Handed(ref handed) => self.handed(handed),
            O::Regions(ref regions) => self.regions(regions),
            O::Strict(ref strict) => self.strict(strict),
            O::Defaults(ref defaults) => self.defaults(defaults),
            O::Managed(ref managed) => self.managed(managed),
            O::GreenStream { stream } => self.green_stream(stream),
            O::CombineWith { stream, buffers, value } => self.combine_with(stream, buffers, value),
            O::Together(ref threads) => self.together(threads),
        }
    }

    /// A launch with an attribute that changes no result.
    fn combine_with(&mut self, stream: usize, buffers: [usize; 3], value: u32) {
        let stream = self.stream(stream);
        let [to, left, right] = buffers.map(|buffer| self.buffer(&stream, buffer));
        let place = &mut self.places[stream.device];
        let numbers = [to, left, right].map(|buffer| place.buffers[buffer].number);
        let event = place.events[0].clone();
        let Some([to, left, right]) = three(place, to, left, right) else { return };
        let config = for_each(LENGTH);
        let config = match value % 6 {
            0 => config.priority(-1),
            1 => config.memory_sync_domain(MemorySyncDomain::Remote),
            2 => config.preferred_shared_memory_carveout(50),
            3 => config.programmatic_event_at_block_start(&event),
            4 => config.launch_completion_event(&event),
            _ => config.programmatic_event(&event),
        };
        let kernel = &self.kernels[stream.device].combine;
        // SAFETY: the kernel reads its three buffers, which have the same length, and writes the first.
        unsafe { stream.stream.launch(kernel, &config, (to, &*left, &*right, value)) }.unwrap();
        let [to, left, right] = numbers;
        let (left, right) = (self.memories[left], self.memories[right]);
        for (index, word) in self.memories[to].iter_mut().enumerate() {
            *word = combined(*word, left[index], right[index], value);
        }
    }

    fn copy_peer(&mut self, stream: usize, to: usize, from_device: usize, from: usize) {
        let stream = self.stream(stream);
        let from_device = from_device % self.places.len();
        let to = self.buffer(&stream, to);
        let from = self.buffer_of(from_device, &stream, from);
        if from_device == stream.device {
            let place = &mut self.places[from_device];
            if let Some([destination, source]) = two(place, to, from) {
                stream.stream.copy_peer(destination, &*source).unwrap();
                self.memories[place.buffers[to].number] = self.memories[place.buffers[from].number];
            }
            return;
        }
        let [own, other] = self.places.get_disjoint_mut([stream.device, from_device]).unwrap();
        let (to, from) = (&mut own.buffers[to], &other.buffers[from]);
        stream.stream.copy_peer(to.buffer.as_mut().unwrap(), from.buffer.as_ref().unwrap()).unwrap();
        self.memories[to.number] = self.memories[from.number];
    }

    /// A scope that copies from and to memory of this function's, in two streams if both are of one device.
    fn scope(&mut self, [stream, other]: [usize; 2], [to, from]: [usize; 2], value: u32, panics: bool) {
        self.let_go();
        let (stream, other) = self.pair([stream, other]);
        let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
        let source = [value; LENGTH];
        let mut destination = [0; LENGTH];
        let buffers = &mut self.places[stream.device].buffers;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            stream.stream.sync_scope(|scope| {
                scope.copy_from_host(buffers[to].buffer.as_mut().unwrap(), &source)?;
                let second = scope.on(&other.stream)?;
                second.copy_to_host(&mut destination, buffers[from].buffer.as_ref().unwrap())?;
                if panics {
                    panic_on_purpose();
                }
                Ok(())
            })
        }));
        // On every way out the copies are done.
        match ended {
            Ok(Ok(())) => assert!(!panics),
            Ok(Err(error)) => {
                assert!(!panics, "{error}");
                stream.expect_panic(&other, &error);
            }
            // The wait after the panic may have swallowed what the streams had to report.
            Err(payload) => assert_eq!(payload.downcast_ref::<&'static str>(), Some(&ON_PURPOSE)),
        }
        let (to, from) = (buffers[to].number, buffers[from].number);
        self.memories[to] = source;
        assert_eq!(destination, self.memories[from], "in memory that a scope borrowed");
    }
}
