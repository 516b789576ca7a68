"""Start, find, watch and stop an inference server; the bundled answer server; the hardware probe."""
