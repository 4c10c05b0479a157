"""What can be trained on without a search: tasks, prompts, rewards."""
