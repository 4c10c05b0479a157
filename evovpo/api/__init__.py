"""The Python interface: the names that `import evovpo` offers."""
