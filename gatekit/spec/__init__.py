"""From config groups and command-line overrides to one frozen, validated Spec."""
