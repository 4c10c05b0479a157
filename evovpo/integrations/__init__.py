"""What evovpo offers to other systems."""
