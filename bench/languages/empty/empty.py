"""Nothing: what the start of each Python costs."""
