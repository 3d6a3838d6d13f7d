"""The code that the runners in Python share: the protocol, the data, the measuring and the counting."""
