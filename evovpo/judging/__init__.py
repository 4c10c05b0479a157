"""Programs and problems to rewards, on this machine or on Ray."""
