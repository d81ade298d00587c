//! The name of a transfer method.

use serde::{Deserialize, Serialize};

use crate::profile::{KeyError, fault};
use byteway_text::error::suggest;
use byteway_text::units::excerpt;
use byteway_transfer::Method;
use byteway_transfer::own::{TransferMethods, UnknownPolicy};

/// The name of a transfer method, which the program may add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MethodName(String);

impl Default for MethodName {
    fn default() -> Self {
        MethodName(Method::default().name().to_owned())
    }
}

impl MethodName {
    /// The method of this name, of those that are built in and those that are added.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub(crate) fn find(&self, methods: &TransferMethods) -> Result<Method, KeyError> {
        const KEY: &str = "transfer.method";
        let MethodName(text) = self;
        if let Some(method) = Method::ALL.into_iter().find(|method| method.name() == text) {
            return Ok(method);
        }
        methods.find(text).map_err(|unknown| match unknown {
            UnknownPolicy::Argument(wrong) => {
                fault(KEY, format!("`{KEY}` = `{}` {}", excerpt(text), wrong.what), wrong.help)
            }
            UnknownPolicy::Name => {
                let own = methods.each().map(|(name, _)| name);
                let known: Vec<&str> = Method::ALL.iter().map(|method| method.name()).chain(own).collect();
                let name = text.split_once(':').map_or(text.as_str(), |(name, _)| name);
                let what = format!("`{KEY}`: `{}` is not one of the choices", excerpt(text));
                fault(KEY, what, suggest(name, &known))
            }
        })
    }
}
