"""Dtypes of cotangents and tangents that differ from their value's, and derivatives that pass through integers."""
