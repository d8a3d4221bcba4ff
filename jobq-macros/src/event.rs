//! `#[derive(Event)]`: the name of an event, checked.

use crate::{
    Mistakes,
    args::{check_name, crate_path, text},
    did_you_mean,
};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, DeriveInput, LitStr, Path, Result, Token, ext::IdentExt, meta::ParseNestedMeta};

/// The impl of `Event`; nothing where it can't be written.
pub(crate) fn expand(item: TokenStream, mistakes: &mut Mistakes) -> Option<TokenStream> {
    let item: DeriveInput = syn::parse2(item).map_err(|mistake| mistakes.add(mistake)).ok()?;
    if !item.generics.params.is_empty() {
        let text = "an event is not generic: a job is subscribed to one type; make a type for each event, and let them \
                    hold the generic one";
        mistakes.at(&item.generics.params, text);
        return None;
    }
    let options = Options::read(&item.attrs, mistakes);
    let name = name(&options, &item.ident, mistakes);
    let (jobq, event) = (options.jobq, &item.ident);
    let cfg = item.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    Some(quote! {
        #(#cfg)*
        impl #jobq::private::Event for #event {
            const NAME: &'static str = #name;
        }
    })
}

struct Options {
    name: Option<LitStr>,
    jobq: Path,
}

impl Options {
    fn read(attrs: &[Attribute], mistakes: &mut Mistakes) -> Self {
        let mut options = Self { name: None, jobq: syn::parse_quote!(::jobq) };
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("event")) {
            if let Err(mistake) = attr.parse_nested_meta(|option| options.read_one(&option)) {
                mistakes.add(mistake);
            }
        }
        options
    }

    fn read_one(&mut self, option: &ParseNestedMeta<'_>) -> Result<()> {
        let word = option.path.get_ident().map(|word| word.unraw().to_string()).unwrap_or_default();
        let example = match word.as_str() {
            "name" => "name = \"user:registered\"",
            "crate" => "crate = my_jobq",
            other => {
                let meant = match other {
                    "type" | "event" => "; did you mean `name`?".to_owned(),
                    other => did_you_mean(other, ["name", "crate"]),
                };
                return Err(option.error(format!("unknown option{meant}\nknown options: `name`, `crate`")));
            }
        };
        if option.input.parse::<Option<Token![=]>>()?.is_none() || option.input.is_empty() {
            return Err(option.error(format!("write `{example}`")));
        }
        match word.as_str() {
            "name" if self.name.is_some() => return Err(option.error("option `name` is given twice")),
            "name" => {
                let name = text(option.input, example)?;
                check_name(&name.value()).map_err(|why| syn::Error::new(name.span(), why))?;
                self.name = Some(name);
            }
            _ => self.jobq = crate_path(option.input, example)?,
        }
        Ok(())
    }
}

fn name(options: &Options, event: &Ident, mistakes: &mut Mistakes) -> LitStr {
    if let Some(written) = &options.name {
        return written.clone();
    }
    let name = LitStr::new(&event.unraw().to_string(), event.span());
    if let Err(why) = check_name(&name.value()) {
        mistakes.say(event.span(), format!("{why}: set a shorter `#[event(name = \"…\")]`"));
    }
    name
}
