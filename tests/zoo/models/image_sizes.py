"""Sizes that the image models share."""

import torch

HEIGHT, WIDTH = 14, 22  # latent; patches of 2 make 7 x 11 tokens
TOKENS = 77
TEXT = 11
SIZE = (HEIGHT, WIDTH)
CROPS = {
    "original_size": torch.tensor([[112.0, 176.0]]),
    "target_size": torch.tensor([[112.0, 176.0]]),
    "crop_coords": torch.tensor([[0.0, 0.0]]),
}
