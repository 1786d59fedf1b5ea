"""Function transforms: thin, over capture and Program."""
