"""The material of the demonstration: real documents, questions about them, and poison."""
