"""A run as one self-contained HTML page: `model` is what the page reads, the rest makes it."""
