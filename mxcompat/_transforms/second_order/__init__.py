"""Derivatives of derivatives in NumPy: rules on symbolic arrays make the gradient of a Program a Program."""
