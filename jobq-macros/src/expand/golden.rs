//! The expansions in `golden/` are what is written today: `<name>.rs` as a user writes it, `<name>.expanded.rs` as
//! it comes out. `JOBQ_WRITE_GOLDEN=1 cargo test -p jobq-macros` writes them anew; read the difference.

use crate::{expand_job, item::Function};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::path::Path;

#[test]
fn send_welcome_email() {
    expands_as_read("send_welcome_email");
}

#[test]
fn convert_webp() {
    expands_as_read("convert_webp");
}

fn expands_as_read(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/expand/golden");
    let written = std::fs::read_to_string(folder.join(format!("{name}.rs"))).expect("the source is there");
    let golden = folder.join(format!("{name}.expanded.rs"));
    let expansion = pretty(expand(&written));
    if std::env::var_os("JOBQ_WRITE_GOLDEN").is_some() {
        std::fs::write(&golden, &expansion).expect("the folder is writable");
    }
    let read = std::fs::read_to_string(&golden).expect("the expansion is there");
    assert_eq!(read, expansion, "\n--- what {name} expands to now ---\n{expansion}");
}

fn expand(written: &str) -> TokenStream {
    let mut function: Function = syn::parse_str(written).expect("is a function");
    let place = function.attrs.iter().position(|attr| attr.path().is_ident("job")).expect("is a job");
    let options = match function.attrs.remove(place).meta {
        syn::Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    let Function { attrs, vis, sig, body } = function;
    expand_job(options, quote!(#(#attrs)* #vis #sig #body))
}

/// Formatted; the registration as a call meanwhile, since the formatter leaves macros as they are.
fn pretty(expansion: TokenStream) -> String {
    let mut file: syn::File = syn::parse2(expansion).expect("is Rust");
    for item in &mut file.items {
        let syn::Item::Const(entry) = item else { continue };
        let syn::Expr::Block(block) = &mut *entry.expr else { continue };
        for statement in &mut block.block.stmts {
            let Ok(syn::Item::Macro(submit)) = syn::parse2(statement.to_token_stream()) else { continue };
            let (path, entry) = (&submit.mac.path, &submit.mac.tokens);
            *statement = syn::parse_quote!(#path(#entry););
        }
    }
    prettyplease::unparse(&file).replace("submit(", "submit!(")
}
