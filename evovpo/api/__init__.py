"""The Python interface: the public names of `import evovpo`."""
