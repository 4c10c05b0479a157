"""Tables and pictures of trainings and studies."""
