"""Compiled control flow: loops and branches whose bodies are Programs."""
