"""What trainings and studies say: tables and pictures."""
