//! `unique(…)`: the rule as expanded code writes it.

use crate::args::{OnConflict, Unique, duration_tokens};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// The rule of a job type's unique keys.
pub(crate) fn rule_tokens(unique: &Unique, private: &TokenStream) -> TokenStream {
    let name = |variant: &&str| Ident::new(variant, Span::call_site());
    let mut fields = Vec::new();
    if let Some(window) = unique.within {
        let window = duration_tokens(window, private);
        fields.push(quote!(within: #private::Some(#window)));
    }
    if let Some(until) = unique.until.as_ref().map(name) {
        fields.push(quote!(states: #private::Until::#until.states()));
    }
    if let Some(states) = &unique.states {
        let states = states.iter().map(name);
        fields.push(quote! {
            states: #private::Until::Started.states().and(#private::StateSet::of(&[#(#private::JobState::#states),*]))
        });
    }
    if let Some(scope) = unique.scope.as_ref().map(name) {
        fields.push(quote!(scope: #private::KeyScope::#scope));
    }
    let on_conflict = unique.on_conflict.as_ref().map(|on_conflict| match on_conflict {
        OnConflict::Keep => quote!(Keep),
        OnConflict::Reject => quote!(Reject),
        OnConflict::Replace => quote!(replace_all()),
        OnConflict::ReplaceSome(some) => {
            let some = some.iter().map(name);
            quote!(replace(&[#(#private::JobField::#some),*]))
        }
    });
    if let Some(on_conflict) = on_conflict {
        fields.push(quote!(on_conflict: #private::OnConflict::#on_conflict));
    }
    let rule = match fields.len() {
        0 => quote!(#private::UniqueRule::DEFAULT),
        _ => quote!(#private::UniqueRule { #(#fields,)* ..#private::UniqueRule::DEFAULT }),
    };
    match unique.debounce {
        None => rule,
        Some(quiet) => {
            let quiet = duration_tokens(quiet, private);
            quote!(#rule.debounced(#quiet))
        }
    }
}
