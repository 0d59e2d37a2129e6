//! The test environment itself: the control plane and the proxy that disturbs its clients.

mod control_plane;
mod images;
mod leaves_nothing_behind;
mod pool;
mod proxy;
