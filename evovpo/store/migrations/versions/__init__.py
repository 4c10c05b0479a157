"""The versions of the store's schema. A version never changes after its release."""
