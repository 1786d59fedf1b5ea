"""Control flow that is compiled: loops and branches whose bodies are Programs."""
