"""Groups to updates: data from the store, the offline step, training on policy through TRL."""
