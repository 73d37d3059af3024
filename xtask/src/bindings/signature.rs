//! The signatures of C functions, out of what bindgen wrote about them.

use std::collections::HashMap;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{File, ForeignItem, GenericArgument, Item, PathArguments, ReturnType, Type, UseTree};

/// A parameter list and a return type, as Rust source.
pub(crate) struct Signature {
    /// Name and type of each parameter.
    pub(crate) parameters: Vec<(String, TokenStream)>,
    /// The return type.
    pub(crate) output: TokenStream,
}

/// The signature behind `type NAME = Option<unsafe extern "C" fn(..) -> ..>`.
pub(crate) fn of_function_type(file: &File, name: &str) -> Option<Signature> {
    file.items.iter().find_map(|item| match item {
        Item::Type(alias) if alias.ident == name => function_in_option(&alias.ty),
        _ => None,
    })
}

/// The signature of a function declared in an `extern` block.
pub(crate) fn of_function(file: &File, name: &str) -> Option<Signature> {
    let blocks = file.items.iter().filter_map(|item| match item {
        Item::ForeignMod(block) => Some(block),
        _ => None,
    });
    blocks.flat_map(|block| &block.items).find_map(|item| match item {
        ForeignItem::Fn(function) if function.sig.ident == name => {
            let parameters = function.sig.inputs.iter().filter_map(|input| match input {
                syn::FnArg::Typed(typed) => Some((typed.pat.to_token_stream().to_string(), typed.ty.to_token_stream())),
                syn::FnArg::Receiver(_) => None,
            });
            Some(Signature { parameters: parameters.collect(), output: return_type(&function.sig.output) })
        }
        _ => None,
    })
}

fn function_in_option(optional: &Type) -> Option<Signature> {
    let Type::Path(path) = optional else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    let GenericArgument::Type(Type::BareFn(function)) = arguments.args.first()? else { return None };
    let parameters = function.inputs.iter().enumerate().map(|(position, input)| {
        let name = input.name.as_ref().map_or_else(|| format!("argument_{position}"), |(name, _)| name.to_string());
        (name, input.ty.to_token_stream())
    });
    Some(Signature { parameters: parameters.collect(), output: return_type(&function.output) })
}

fn return_type(output: &ReturnType) -> TokenStream {
    match output {
        ReturnType::Default => quote::quote!(()),
        ReturnType::Type(_, kind) => kind.to_token_stream(),
    }
}

/// What each type's name stands for, so that two spellings of one type compare equal.
pub(crate) struct Aliases(HashMap<String, TokenStream>);

impl Aliases {
    /// The aliases that a file declares, by `type` or by renaming in `use`.
    pub(crate) fn of(file: &File) -> Self {
        let named = file.items.iter().filter_map(|item| match item {
            Item::Type(alias) => Some((alias.ident.to_string(), alias.ty.to_token_stream())),
            Item::Use(import) => match &import.tree {
                UseTree::Path(path) => match &*path.tree {
                    UseTree::Rename(renamed) => Some((renamed.rename.to_string(), renamed.ident.to_token_stream())),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        });
        Self(named.collect())
    }

    /// The signature with every alias replaced by what it stands for; parameter names are ignored.
    pub(crate) fn expand(&self, signature: &Signature) -> Vec<String> {
        let kinds = signature.parameters.iter().map(|(_, kind)| kind).chain([&signature.output]);
        kinds.map(|kind| self.expand_tokens(kind.clone())).collect()
    }

    fn expand_tokens(&self, tokens: TokenStream) -> String {
        let expanded = tokens.into_iter().map(|token| match token {
            TokenTree::Ident(identifier) => match self.0.get(&identifier.to_string()) {
                // C has no recursive aliases, so this ends.
                Some(meaning) => self.expand_tokens(meaning.clone()),
                None => identifier.to_string(),
            },
            TokenTree::Group(group) => self.expand_tokens(group.stream()),
            other => other.to_string(),
        });
        expanded.collect::<Vec<_>>().join(" ")
    }
}
