"""The questions: datasets, prompts, answer extraction and scoring."""
