//! NetworkAddonsConfig to components to objects. Pure.
