//! The `#[job]` attribute of jobq. Use it through the crate `jobq`, which re-exports it.

mod args;
mod expand;
mod item;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Makes a function a job: it stays callable, and can be enqueued and run by a worker.
#[proc_macro_attribute]
pub fn job(options: proc_macro::TokenStream, function: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand_job(options.into(), function.into()).into()
}

/// Parse → check → expand. Whatever is wrong, the user's function is in the answer, so that its callers still find it.
fn expand_job(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = args::Options::read(options, &mut mistakes);
    let tokens = match syn::parse2::<item::Function>(function.clone()) {
        Err(mistake) => {
            mistakes.add(mistake);
            function
        }
        Ok(function) => {
            let as_written = function.plain();
            item::Item::check(function, options.blocking, &mut mistakes)
                .and_then(|item| expand::expand(&options, &item, &mut mistakes))
                .unwrap_or(as_written)
        }
    };
    let mistakes = mistakes.into_tokens();
    quote::quote!(#tokens #mistakes)
}

/// What is wrong, all of it.
#[derive(Default)]
struct Mistakes(Vec<syn::Error>);

impl Mistakes {
    fn add(&mut self, mistake: syn::Error) {
        self.0.push(mistake);
    }

    fn say(&mut self, at: Span, text: impl std::fmt::Display) {
        self.add(syn::Error::new(at, text));
    }

    fn at(&mut self, tokens: impl ToTokens, text: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, text));
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn into_tokens(self) -> Option<TokenStream> {
        let all = self.0.into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        });
        all.map(|all| all.into_compile_error())
    }
}

/// `; did you mean …?` where one of the known words is near.
fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let near = known.into_iter().map(|known| (strsim::jaro_winkler(word, known), known));
    match near.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, known)) if likeness > 0.8 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

/// The words as a list.
fn words<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = known.into_iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}
