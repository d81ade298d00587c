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
}
