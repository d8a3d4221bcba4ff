//! `concurrency` and `rate_limit`: the numbers as expanded code writes them.

use crate::args::{Limits, Rate, duration_tokens};
use proc_macro2::TokenStream;
use quote::quote;

/// The limits of a job type; `None`: it says nothing of them.
pub(crate) fn bounds_tokens(limits: &Limits, private: &TokenStream) -> Option<TokenStream> {
    let rate = |rate: Rate| {
        let (starts, per) = (rate.starts, duration_tokens(rate.per, private));
        quote!(#private::Rate::new(#starts, #per))
    };
    let (slots, slots_of_key) = limits.concurrency();
    let (starts, starts_of_key) = limits.rate();
    let given = [
        slots.map(|jobs| quote!(concurrency: #private::Some(#jobs))),
        slots_of_key.map(|jobs| quote!(concurrency_per_key: #private::Some(#jobs))),
        starts.map(rate).map(|rate| quote!(rate: #private::Some(#rate))),
        starts_of_key.map(rate).map(|rate| quote!(rate_per_key: #private::Some(#rate))),
    ];
    let given: Vec<_> = given.into_iter().flatten().collect();
    match given.len() {
        0 => None,
        4 => Some(quote!(#private::Bounds { #(#given),* })),
        _ => Some(quote!(#private::Bounds { #(#given,)* ..#private::Bounds::NONE })),
    }
}
