//! What conditions leave of a source when neither tests nor models are built.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// The configurations whose code does not count.
const LEFT_OUT: &[&str] = &["test", "loom"];

/// Whether something with these attributes can be there in a build that is neither of tests nor for loom.
pub(crate) fn counts(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).all(|attribute| {
        let condition = attribute.parse_args::<Meta>();
        condition.map_or(true, |condition| value(&condition) != Some(false))
    })
}

/// Whether a condition holds, where that is the same for all such builds.
fn value(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(name) => LEFT_OUT.iter().any(|left_out| name.is_ident(left_out)).then_some(false),
        Meta::NameValue(_) => None,
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let values: Vec<Option<bool>> = parts.iter().map(value).collect();
            if list.path.is_ident("not") {
                values.first()?.map(|value| !value)
            } else {
                // One value decides, and otherwise all must be known.
                let decisive = list.path.is_ident("any");
                if values.contains(&Some(decisive)) {
                    Some(decisive)
                } else {
                    values.iter().all(Option::is_some).then_some(!decisive)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::counts;
    use syn::parse_quote;

    #[test]
    fn tests_and_models_do_not_count() {
        for attribute in [
            parse_quote!(#[cfg(test)]),
            parse_quote!(#[cfg(loom)]),
            parse_quote!(#[cfg(all(test, unix))]),
            parse_quote!(#[cfg(any(test, loom))]),
            parse_quote!(#[cfg(all(loom, not(windows)))]),
            parse_quote!(#[cfg(not(not(test)))]),
        ] {
            assert!(!counts(&[attribute]));
        }
    }

    #[test]
    fn what_can_be_there_counts() {
        for attribute in [
            parse_quote!(#[cfg(not(loom))]),
            parse_quote!(#[cfg(any(test, feature = "host"))]),
            parse_quote!(#[cfg(feature = "cuda")]),
            parse_quote!(#[cfg(all(not(test), unix))]),
            parse_quote!(#[doc(hidden)]),
        ] {
            assert!(counts(&[attribute]));
        }
    }
}
