"""A small language model and an engine that serves it the way SGLang would: lesson 31."""
