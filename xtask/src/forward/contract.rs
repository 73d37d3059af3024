//! The traits of the driver contract, read from their source.

use std::collections::BTreeMap;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, FnArg, Item, ItemTrait, Pat, ReturnType, Signature, TraitItem, Type, TypeParamBound};

use crate::{Outcome, sources};

/// One trait of the contract: a group of methods.
pub(crate) struct Group {
    /// The name of the trait.
    pub(crate) name: String,
    /// Whether only unsafe code can implement it.
    pub(crate) is_unsafe: bool,
    /// Its methods, in the order of the source.
    pub(crate) methods: Vec<Method>,
}

/// A method of a trait, without its body.
pub(crate) struct Method {
    /// The attributes that a forwarding method needs too.
    pub(crate) attributes: Vec<Attribute>,
    /// Everything before the body.
    pub(crate) signature: Signature,
    /// The names of its arguments, without the receiver.
    pub(crate) arguments: Vec<String>,
}

/// The trait `driver` and all its supertraits that the crate with its sources in `folder` declares; supertraits come
/// first.
pub(crate) fn groups(folder: &Path, driver: &str) -> Outcome<Vec<Group>> {
    let mut traits = BTreeMap::new();
    for path in sources::rust_files(folder)? {
        for item in sources::parse(&path)?.items {
            if let Item::Trait(item) = item {
                traits.insert(item.ident.to_string(), item);
            }
        }
    }
    let mut groups = Vec::new();
    collect(&mut traits, driver, &mut groups)?;
    if groups.is_empty() {
        return Err(format!("no trait {driver} is declared in {}", folder.display()).into());
    }
    Ok(groups)
}

/// Takes the trait `name` out of `traits`, so that each is collected once, and collects it behind its supertraits. Traits
/// of other crates are left alone.
fn collect(traits: &mut BTreeMap<String, ItemTrait>, name: &str, groups: &mut Vec<Group>) -> Outcome<()> {
    let Some(item) = traits.remove(name) else { return Ok(()) };
    for bound in &item.supertraits {
        if let TypeParamBound::Trait(bound) = bound
            && let Some(supertrait) = bound.path.get_ident()
        {
            collect(traits, &supertrait.to_string(), groups)?;
        }
    }
    groups.push(group(item)?);
    Ok(())
}

fn group(item: ItemTrait) -> Outcome<Group> {
    let (name, is_unsafe) = (item.ident.to_string(), item.unsafety.is_some());
    let mut methods = Vec::with_capacity(item.items.len());
    for item in item.items {
        let TraitItem::Fn(function) = item else {
            return Err(format!("{name} has something that is no method, which cannot be forwarded").into());
        };
        let method = method(function.attrs, function.sig)
            .map_err(|(method, problem)| format!("{name}::{method} {problem}, and cannot be forwarded"))?;
        methods.push(method);
    }
    Ok(Group { name, is_unsafe, methods })
}

/// On failure the name of the method, and what is wrong with it.
fn method(attributes: Vec<Attribute>, signature: Signature) -> Result<Method, (String, &'static str)> {
    let refuse = |problem| Err((signature.ident.to_string(), problem));
    let mut inputs = signature.inputs.iter();
    match inputs.next() {
        Some(FnArg::Receiver(receiver)) if receiver.reference.is_some() && receiver.mutability.is_none() => {}
        _ => return refuse("does not take &self"),
    }
    if signature.generics.type_params().next().is_some() || signature.generics.const_params().next().is_some() {
        return refuse("is generic");
    }
    let mut arguments = Vec::new();
    for input in inputs {
        let FnArg::Typed(typed) = input else { continue };
        match &*typed.pat {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                arguments.push(name.ident.to_string())
            }
            _ => return refuse("has an argument without a name"),
        }
    }
    let attributes = attributes.into_iter().filter(is_kept).collect();
    Ok(Method { attributes, signature, arguments })
}

/// What the compiler or clippy says of the method holds for the one that forwards it.
fn is_kept(attribute: &Attribute) -> bool {
    ["allow", "expect", "cfg", "must_use", "deprecated"].iter().any(|name| attribute.path().is_ident(name))
}

impl Method {
    /// The name.
    pub(crate) fn name(&self) -> String {
        self.signature.ident.to_string()
    }

    /// Whether it must be called in an unsafe block.
    pub(crate) fn is_unsafe(&self) -> bool {
        self.signature.unsafety.is_some()
    }

    /// Whether its result can say that the call has failed.
    pub(crate) fn can_fail(&self) -> bool {
        let ReturnType::Type(_, returned) = &self.signature.output else { return true };
        let Type::Path(path) = &**returned else { return false };
        let last = path.path.segments.last().map(|segment| segment.ident.to_string());
        last.is_some_and(|name| ["Result", "Option", "bool"].contains(&&*name))
    }

    /// The attributes that `keep` wants, and the signature, as source.
    pub(crate) fn head(&self, keep: impl Fn(&Attribute) -> bool) -> String {
        let attributes = self.attributes.iter().filter(|attribute| keep(attribute));
        let lines = attributes.map(ToTokens::to_token_stream).chain([self.signature.to_token_stream()]);
        lines.map(|tokens| tokens.to_string()).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, collect};
    use syn::{ItemTrait, parse_quote};

    fn groups(traits: Vec<ItemTrait>, driver: &str) -> Result<Vec<Group>, String> {
        let mut traits = traits.into_iter().map(|item| (item.ident.to_string(), item)).collect();
        let mut groups = Vec::new();
        collect(&mut traits, driver, &mut groups).map_err(|error| error.to_string())?;
        Ok(groups)
    }

    #[test]
    fn supertraits_come_first_and_once() {
        let found = groups(
            vec![
                parse_quote!(
                    unsafe trait Driver: Graphs + Streams + fmt::Debug + Send {
                        fn kind(&self) -> Kind;
                    }
                ),
                parse_quote!(
                    trait Graphs: Streams {
                        fn graph(&self);
                    }
                ),
                parse_quote!(
                    trait Streams {
                        unsafe fn stream(&self, call: &Call<'_>, flags: Flags) {
                            drop(call)
                        }
                    }
                ),
                parse_quote!(
                    trait Compiler {
                        fn compile(&self);
                    }
                ),
            ],
            "Driver",
        )
        .unwrap();
        let names: Vec<&str> = found.iter().map(|group| &*group.name).collect();
        assert_eq!(names, ["Streams", "Graphs", "Driver"]);
        assert_eq!(found.iter().map(|group| group.is_unsafe).collect::<Vec<_>>(), [false, false, true]);
        let stream = &found[0].methods[0];
        assert_eq!((stream.name().as_str(), stream.is_unsafe()), ("stream", true));
        assert_eq!(stream.arguments, ["call", "flags"]);
    }

    #[test]
    fn what_a_trait_object_cannot_have_is_refused() {
        let refused = [
            parse_quote!(
                trait Driver {
                    fn generic<T>(&self, value: T);
                }
            ),
            parse_quote!(
                trait Driver {
                    fn no_receiver();
                }
            ),
            parse_quote!(
                trait Driver {
                    fn exclusive(&mut self);
                }
            ),
            parse_quote!(
                trait Driver {
                    fn unnamed(&self, (a, b): (u8, u8));
                }
            ),
            parse_quote!(
                trait Driver {
                    const NUMBER: u8;
                }
            ),
        ];
        for item in refused {
            let problem = groups(vec![item], "Driver").err().unwrap();
            assert!(problem.contains("cannot be forwarded"), "{problem}");
        }
    }
}
