"""Function transforms: a thin layer over capture and Program."""
