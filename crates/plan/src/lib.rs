//! What a change would do: object identity, inventory, comparison of desired and live, rollout and conditions. Pure.
