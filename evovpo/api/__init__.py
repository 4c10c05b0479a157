"""What a library user calls: the names that `evovpo` itself offers, over problems given as Python values."""
