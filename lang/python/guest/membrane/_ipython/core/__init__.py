"""Where older programs find the module display."""
