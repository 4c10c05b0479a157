"""Training of models: offline on stored rollouts, and on-policy with TRL."""
