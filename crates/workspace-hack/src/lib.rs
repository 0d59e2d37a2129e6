//! Nothing. Only the manifest counts.
//!
//! Cargo gives a dependency the features that the chosen packages ask for, so each choice of
//! packages would build its own set of dependencies. The crates have this one as a
//! dev-dependency. So all tests share one set, and a program that users get has no feature more.
