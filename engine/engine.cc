namespace membrane::engine {}
