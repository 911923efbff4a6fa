"""Chat models: how they are reached, what they are asked, what their replies mean."""
