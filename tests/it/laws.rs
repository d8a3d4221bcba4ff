//! What every store does, each law a fact, tried on each store of one list with bystanders that must stay as they were.

mod claim;
mod edges;
mod fence;
mod ground;
mod history;
mod list;
mod people;
mod standing;
mod text;
mod workers;

/// The laws of one room, tried on every store. A law that is left out of the list is dead code, and so an error.
macro_rules! on_every_store {
    ($($law:ident),* $(,)?) => {
        on_every_store!(memory: $($law),*);
        on_every_store!(sqlite: $($law),*);
    };
    // One line above for each store; its name is that of the function in `ground` that opens it.
    ($store:ident: $($law:ident),*) => {
        mod $store {
            $(#[test]
            fn $law() {
                crate::laws::ground::try_law(crate::laws::ground::$store, |ground| Box::pin(super::$law(ground)));
            })*
        }
    };
}
use on_every_store;

pub(crate) use ground::foreign;
