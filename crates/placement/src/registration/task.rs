//! A task at Keystone, and its result. An assessment asks for it. The caller of the assessment runs
//! the task at the same time.

use std::fmt;

use super::{Permitted, Wanted};

/// How Keystone is reached, and as whom.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The permitted address of Keystone. The permission for the following values.
    pub keystone: Permitted,
    /// The certificates, in PEM form, that it is verified by. Nothing: those of the system.
    pub bundle: Option<Vec<u8>>,
    /// A user of domain Default with the role admin on the system.
    pub user: String,
    /// Password of that user.
    pub password: String,
    /// How the user is called in messages: a name that comes from a Secret is not shown. For
    /// example `the user of field 'username' of secret/keystone-admin`.
    pub called: String,
}

/// Which part of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The service's user: before pods log in as it.
    Account,
    /// Service and endpoints: once pods answer.
    Catalogue,
    /// All of it goes.
    Removal,
}

/// Something to be done at Keystone. It may be repeated at any time.
#[derive(Clone, PartialEq, Eq)]
pub struct Task {
    /// part of the registration
    pub part: Part,
    /// where, and as whom
    pub access: Access,
    /// how it is to be
    pub wanted: Wanted,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is being done. The task is running and reports its result later.
    UnderWay,
    /// It failed, in these words, and is tried again.
    Failed(String),
    /// The task is done.
    Done,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("keystone", &self.keystone)
            .field("user", &self.called)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("part", &self.part)
            .field("access", &self.access)
            .field("wanted", &self.wanted)
            .finish()
    }
}
