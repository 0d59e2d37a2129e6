//! Direct registration against a real Keystone: `make test-placement`.

mod cloud;
mod long {
    mod registered;
    mod rotation;
}
