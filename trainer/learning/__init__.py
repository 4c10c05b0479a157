"""Training of models: data from the store, offline steps, and on-policy training with TRL."""
