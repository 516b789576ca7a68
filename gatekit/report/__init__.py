"""From verdicts and history to text. Values in, text out; computes no statistics."""
