"""Sizes that the video models share."""

FRAMES, HEIGHT, WIDTH = 5, 10, 14  # latent; patches of (1, 2, 2) make 5 x 5 x 7 tokens
TOKENS = FRAMES * (HEIGHT // 2) * (WIDTH // 2)
TEXT = 11
SIZE = (FRAMES, HEIGHT, WIDTH)
