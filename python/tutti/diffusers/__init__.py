"""Diffusers pipelines whose models run in a server. README.md tells how; needs torch, diffusers and tritonclient[grpc]."""

from tutti.diffusers.remote_model import RemoteModel
from tutti.diffusers.served_model import RemoteError, ServedModel

__all__ = ["RemoteError", "RemoteModel", "ServedModel"]
