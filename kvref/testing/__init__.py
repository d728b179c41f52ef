"""What test sessions need: failures that explain themselves, traces as tests, and the verdict."""
