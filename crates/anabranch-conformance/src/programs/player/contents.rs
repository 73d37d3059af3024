//! What memory contains.

use super::super::answer::{Answer, Outcome};
use super::super::slots::ContextSlot;
use super::Stage;
use super::harness::{MARK_COUNT, MARKS, REGION_BYTES, REGION_COUNT, WORD_COUNT, pattern, target};
use std::sync::atomic::Ordering;

/// The numbers that are not 0, each with its index and a letter.
fn numbers(text: &mut String, letter: char, bytes: &[u8], stride: usize) {
    for (index, word) in bytes.chunks_exact(stride).enumerate() {
        let number = word.iter().take(4).rev().fold(0u32, |number, &byte| number << 8 | u32::from(byte));
        if number != 0 {
            text.push_str(&format!(" {letter}{index}={number}"));
        }
    }
}

/// How many bytes of each region were written, and whether with anything else than its pattern.
fn regions(text: &mut String, bytes: &[u8]) {
    for region in 0..REGION_COUNT {
        let written: Vec<u8> =
            bytes[target(region)..target(region) + REGION_BYTES].iter().copied().filter(|&byte| byte != 0).collect();
        if written.iter().any(|&byte| byte != pattern(region)) {
            text.push_str(&format!(" r{region}={written:x?}"));
        } else if !written.is_empty() {
            text.push_str(&format!(" r{region}={}", written.len()));
        }
    }
}

impl Stage {
    /// Waits for all work, and says what the memory of the harness contains.
    pub(super) fn read_contents(&mut self) -> Answer {
        let contexts = [ContextSlot(0), ContextSlot(1)];
        for context in contexts {
            if let Err(failure) = self.driver.context_synchronize(&self.harness.call(context)) {
                return Answer::with(Outcome::Status(failure.status.0), format!("synchronizing {context}"));
            }
        }
        let mut parts = Vec::new();
        for context in contexts {
            match self.harness.read(context) {
                Ok(bytes) => {
                    let mut text = String::new();
                    numbers(&mut text, 'w', &bytes[..WORD_COUNT * 4], 4);
                    numbers(&mut text, 'k', &bytes[MARKS..MARKS + MARK_COUNT * 8], 8);
                    regions(&mut text, &bytes);
                    parts.push((context.to_string(), text));
                }
                Err(failure) => return Answer::with(Outcome::Status(failure.status.0), format!("reading {context}")),
            }
        }
        for (name, address) in [("pinned", self.harness.pinned), ("pageable", self.harness.pageable)] {
            let mut text = String::new();
            regions(&mut text, &self.harness.read_host(address));
            parts.push((name.to_owned(), text));
        }
        let sum = self.harness.host_sum.load(Ordering::Acquire);
        parts.push(("host".to_owned(), if sum == 0 { String::new() } else { format!(" {sum}") }));
        let written = parts.iter().filter(|(_, text)| !text.is_empty());
        let text: Vec<String> = written.map(|(name, text)| format!("{name}{text}")).collect();
        Answer::with(Outcome::Status(0), text.join(" "))
    }
}
