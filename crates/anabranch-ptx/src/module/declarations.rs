//! One declaration for each name of a module: what is declared repeatedly must be declared in the same way, and a definition
//! replaces declarations.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::lower::{Item, Items, layout};
use crate::position::{ParseError, Parsed};
use crate::syntax::{Alias, File, Function, Linkage, Variable};

/// The variables of a module, each once. One that is `.extern` in this module may be declared repeatedly, and defined once.
pub(super) fn variables<'f, 'a>(file: &'f File<'a>) -> Parsed<Vec<&'f Variable<'a>>> {
    let mut found: Vec<&Variable<'a>> = Vec::new();
    let mut places = HashMap::new();
    for variable in &file.variables {
        let place = match places.entry(variable.name) {
            Entry::Vacant(entry) => {
                entry.insert(found.len());
                found.push(variable);
                continue;
            }
            Entry::Occupied(entry) => *entry.get(),
        };
        let (earlier, name) = (found[place], variable.name);
        let is_same = (earlier.space, earlier.scalar, earlier.vector)
            == (variable.space, variable.scalar, variable.vector)
            && have_same_dimensions(earlier, variable);
        if !is_same {
            let line = earlier.at.line;
            let message = format!("the variable `{name:.60}` has another type or space than in line {line}");
            return Err(ParseError::new(variable.at, message));
        }
        found[place] = match (earlier.linkage, variable.linkage) {
            (Linkage::Extern, Linkage::Extern) => std::cmp::max_by_key(earlier, variable, |it| layout(it)),
            (Linkage::Extern, _) => variable,
            (_, Linkage::Extern) => earlier,
            _ => {
                let message = format!("a second definition of the variable `{name:.60}`");
                return Err(ParseError::new(variable.at, message));
            }
        };
    }
    Ok(found)
}

/// Whether two declarations have the same dimensions. The first one may be left out in one of them.
fn have_same_dimensions(one: &Variable<'_>, other: &Variable<'_>) -> bool {
    match (&one.dimensions[..], &other.dimensions[..]) {
        ([first, rest @ ..], [second, others @ ..]) => {
            rest == others && (first == second || *first == 0 || *second == 0)
        }
        (one, other) => one.len() == other.len(),
    }
}

/// Names functions, each once, and the aliases of functions.
pub(super) fn functions<'f, 'a>(items: &mut Items<'a>, file: &'f File<'a>) -> Parsed<Vec<&'f Function<'a>>> {
    let aliases = aliases(file)?;
    let mut declared_aliases: HashMap<&str, &Function<'a>> = HashMap::new();
    let mut found: Vec<&Function<'a>> = Vec::new();
    for function in &file.functions {
        if aliases.contains_key(function.name) {
            check_alias(function)?;
            if let Some(earlier) = declared_aliases.insert(function.name, function) {
                check_prototype(earlier, function)?;
            }
            continue;
        }
        let name = function.name;
        match items.by_name.get(name) {
            Some(Item::Variable(_)) => {
                return Err(ParseError::new(function.at, "a function with the name of a variable"));
            }
            Some(Item::Function(index)) => {
                let earlier = &mut found[*index as usize];
                if earlier.body.is_some() && function.body.is_some() {
                    return Err(ParseError::new(function.at, format!("a second body of the function `{name:.60}`")));
                }
                check_prototype(earlier, function)?;
                if function.body.is_some() {
                    *earlier = function;
                }
            }
            None => {
                items.by_name.insert(name, Item::Function(found.len() as u32));
                found.push(function);
            }
        }
    }
    for alias in &file.aliases {
        let declaration = declared_aliases.get(alias.name).copied();
        let function = name_alias(items, &found, alias, declaration, aliases.contains_key(alias.target))?;
        items.by_name.insert(alias.name, Item::Function(function));
    }
    Ok(found)
}

/// The aliases by their names.
fn aliases<'f, 'a>(file: &'f File<'a>) -> Parsed<HashMap<&'a str, &'f Alias<'a>>> {
    let mut aliases = HashMap::new();
    for alias in &file.aliases {
        if aliases.insert(alias.name, alias).is_some() {
            return Err(ParseError::new(alias.at, format!("a second alias `{:.60}`", alias.name)));
        }
    }
    Ok(aliases)
}

/// Checks that a function can be an alias.
fn check_alias(function: &Function<'_>) -> Parsed<()> {
    let reason = if function.kernel {
        "a kernel"
    } else if function.body.is_some() {
        "defined"
    } else {
        return Ok(());
    };
    Err(ParseError::new(function.at, format!("the alias `{:.60}` is {reason}", function.name)))
}

/// The function that an alias names.
fn name_alias(
    items: &Items<'_>,
    functions: &[&Function<'_>],
    alias: &Alias<'_>,
    declaration: Option<&Function<'_>>,
    is_of_alias: bool,
) -> Parsed<u32> {
    let (name, target) = (alias.name, alias.target);
    let error = |message: String| Err(ParseError::new(alias.at, message));
    let Some(declaration) = declaration else {
        return error(match items.by_name.get(name) {
            Some(Item::Variable(_)) => format!("an alias with the name of the variable `{name:.60}`"),
            _ => format!("the alias `{name:.60}` is not declared; declare it as a function without a body"),
        });
    };
    if is_of_alias {
        return error(format!("an alias of `{target:.60}`, which is an alias itself"));
    }
    let number = match items.by_name.get(target) {
        Some(Item::Function(number)) => *number,
        Some(Item::Variable(_)) => return error(format!("an alias of `{target:.60}`, which is a variable")),
        None => return error(format!("an alias of `{target:.60}`, which is not declared")),
    };
    let function = functions[number as usize];
    let reason = if function.kernel {
        "a kernel"
    } else if function.body.is_none() {
        "not defined in this module"
    } else if function.linkage == Linkage::Weak {
        "weak"
    } else {
        check_prototype(function, declaration)?;
        return Ok(number);
    };
    error(format!("an alias of the function `{target:.60}`, which is {reason}"))
}

/// Checks that two declarations of a function, or of a function and its alias, agree.
fn check_prototype(earlier: &Function<'_>, later: &Function<'_>) -> Parsed<()> {
    let what = if earlier.kernel != later.kernel {
        "is a kernel in one of them only"
    } else if !agree(&earlier.results, &later.results) {
        "has other results"
    } else if !agree(&earlier.parameters, &later.parameters) {
        "has other parameters"
    } else {
        return Ok(());
    };
    let (line, name) = (earlier.at.line, later.name);
    Err(ParseError::new(later.at, format!("the function `{name:.60}` and that of line {line} do not agree: it {what}")))
}

fn agree(earlier: &[Variable<'_>], later: &[Variable<'_>]) -> bool {
    let agree = |one: &Variable<'_>, other: &Variable<'_>| {
        (one.space, one.scalar, one.vector, &one.dimensions, layout(one))
            == (other.space, other.scalar, other.vector, &other.dimensions, layout(other))
    };
    earlier.len() == later.len() && earlier.iter().zip(later).all(|(one, other)| agree(one, other))
}
