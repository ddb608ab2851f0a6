"""What we race against, in PyTorch."""
