"""Domains that read their prompts from a file, in the format of a public benchmark or in your own."""
