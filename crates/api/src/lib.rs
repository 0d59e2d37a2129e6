//! The custom resources that Weft serves: types, schema, CEL rules, defaults and printer columns. No I/O, no logic.
