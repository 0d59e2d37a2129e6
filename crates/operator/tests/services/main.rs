//! Direct registration against a real Keystone: `make test-placement`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cloud;
mod long {
    mod registered;
    mod rotation;
}
