"""From groups to updates: data from the store, offline steps, on-policy training with TRL."""
