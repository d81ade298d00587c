//! Arguments of policies.

/// An argument of a policy that it can't use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongArgument {
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

impl WrongArgument {
    /// Of a policy without arguments.
    pub fn none_is_taken() -> Self {
        WrongArgument {
            what: "takes no argument".into(),
            help: "leave out the colon and what follows it".into(),
        }
    }

    /// Of code that panicked, with this message.
    pub(crate) fn panicked(what: String) -> Self {
        WrongArgument { what, help: "its code is at fault: mend it there".into() }
    }
}
