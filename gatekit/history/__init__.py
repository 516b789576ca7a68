"""What was measured before: immutable run records and an index over them."""
