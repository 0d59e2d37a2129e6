//! What a node is to look like, by the policies that select it, and when it may change.
