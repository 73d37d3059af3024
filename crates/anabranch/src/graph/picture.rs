//! A graph as text that other programs draw: DOT, Mermaid and JSON.

use super::{Graph, GraphDescription, NodeDescription};
use crate::error::{Error, ErrorKind, Result};
use anabranch_hal::Status;
use std::fmt::Write as _;

impl Graph {
    /// The graph in the DOT language of Graphviz, with names and parameters.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn to_dot(&self) -> Result<String> {
        Ok(self.describe()?.to_dot())
    }

    /// The graph in the language of Mermaid, which many documentation tools draw.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn to_mermaid(&self) -> Result<String> {
        Ok(self.describe()?.to_mermaid())
    }

    /// The graph as JSON: the [`GraphDescription`].
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn to_json(&self) -> Result<String> {
        self.describe()?.to_json()
    }
}

impl GraphDescription {
    /// The same without parameters such as addresses, which differ between runs.
    #[must_use]
    pub fn without_parameters(mut self) -> Self {
        for node in &mut self.nodes {
            node.parameters.clear();
            node.graphs = std::mem::take(&mut node.graphs).into_iter().map(Self::without_parameters).collect();
        }
        self
    }

    /// In the DOT language of Graphviz.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("digraph {\n    node [shape=box, fontname=\"sans-serif\"];\n");
        dot(&mut text, self, "n", 1);
        text.push_str("}\n");
        text
    }

    /// In the language of Mermaid.
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        mermaid(&mut text, self, "n", 1);
        text
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never in practice.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| {
            Error::new(ErrorKind::Argument, Status::UNKNOWN, "writing a graph as JSON").with_message(error.to_string())
        })
    }
}

/// Text inside of a quoted string of DOT.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Text inside of a quoted string of Mermaid, which takes it for HTML, and `#` for the beginning of an entity.
fn entities(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '#' => escaped.push_str("#35;"),
            '"' => escaped.push_str("#quot;"),
            '&' => escaped.push_str("#amp;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            // At the beginning, it would make the text Markdown.
            '`' => escaped.push_str("#96;"),
            '\n' => escaped.push_str("<br>"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The lines of a node's label.
fn lines(node: &NodeDescription) -> Vec<String> {
    let mut lines = vec![node.label.clone()];
    if node.kind != node.label {
        lines.push(format!("({})", node.kind));
    }
    lines.extend(node.parameters.iter().map(|(name, value)| format!("{name}: {value}")));
    lines
}

// Writing to a string does not fail.
fn dot(text: &mut String, graph: &GraphDescription, prefix: &str, depth: usize) {
    let indent = "    ".repeat(depth);
    for node in &graph.nodes {
        let label = lines(node).iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\\n");
        let _ = writeln!(text, "{indent}{prefix}{} [label=\"{label}\"];", node.number);
        for (place, inner) in node.graphs.iter().enumerate() {
            let name = format!("{prefix}{}_{place}_", node.number);
            let _ = writeln!(text, "{indent}subgraph cluster_{name} {{");
            let _ = writeln!(text, "{indent}    label=\"{} {place}\";", escaped(&node.label));
            dot(text, inner, &name, depth + 1);
            let _ = writeln!(text, "{indent}}}");
            if let Some(first) = inner.nodes.first() {
                let _ = writeln!(text, "{indent}{prefix}{} -> {name}{} [style=dotted];", node.number, first.number);
            }
        }
    }
    for edge in &graph.edges {
        let style = edge.kind.as_ref().map(|kind| format!(" [label=\"{kind}\"]")).unwrap_or_default();
        let _ = writeln!(text, "{indent}{prefix}{} -> {prefix}{}{style};", edge.from, edge.to);
    }
}

fn mermaid(text: &mut String, graph: &GraphDescription, prefix: &str, depth: usize) {
    let indent = "    ".repeat(depth);
    for node in &graph.nodes {
        let label = lines(node).iter().map(|line| entities(line)).collect::<Vec<_>>().join("<br>");
        let _ = writeln!(text, "{indent}{prefix}{}[\"{label}\"]", node.number);
        for (place, inner) in node.graphs.iter().enumerate() {
            let name = format!("{prefix}{}_{place}_", node.number);
            let _ = writeln!(text, "{indent}subgraph {name}[\"{} {place}\"]", entities(&node.label));
            mermaid(text, inner, &name, depth + 1);
            let _ = writeln!(text, "{indent}end");
            if !inner.nodes.is_empty() {
                let _ = writeln!(text, "{indent}{prefix}{} -.-> {name}", node.number);
            }
        }
    }
    for edge in &graph.edges {
        let kind = edge.kind.as_ref().map(|kind| format!("|{kind}|")).unwrap_or_default();
        let _ = writeln!(text, "{indent}{prefix}{} -->{kind} {prefix}{}", edge.from, edge.to);
    }
}
