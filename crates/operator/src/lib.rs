//! The controllers: one file each.
