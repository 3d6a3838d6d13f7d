"""What the runners in Python share: the protocol, the equal data, the measuring and the counting."""
