"""Files of arrays, with one module for each format. They import the ops, but not the transforms."""
