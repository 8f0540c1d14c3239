"""Transformers as lists of layers, and where each layer runs."""
