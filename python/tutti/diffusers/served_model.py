"""A model behind the KServe v2 protocol, asked with PyTorch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grpc
import torch
from tritonclient.grpc import service_pb2, service_pb2_grpc

DTYPES = {
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "FP16": torch.float16,
    "BF16": torch.bfloat16,
    "FP32": torch.float32,
    "FP64": torch.float64,
}
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class RemoteError(RuntimeError):
    """The server refused or did not answer; the message names model, status and the server's words."""


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as the server describes it; -1 stands for any size."""

    dtype: torch.dtype
    datatype: str
    shape: tuple[int, ...]


class ServedModel:
    """
    One model of a server over gRPC.

    Tensors travel as raw bytes in the message, so bf16 needs no detour over NumPy.

    Parameters
    ----------
    url
        ``host:port`` of the gRPC service.
    name, version
        The model; without a version the server chooses.
    timeout
        Seconds until a call fails.
    credentials
        TLS, as ``grpc.ssl_channel_credentials`` makes it.

    Raises
    ------
    RemoteError
        The server does not answer, or has no such model ready.
    """

    def __init__(
        self,
        url: str,
        name: str,
        version: str = "",
        timeout: float = 600.0,
        credentials: grpc.ChannelCredentials | None = None,
    ):
        if "://" in url:
            raise ValueError(f"url '{url}': expected host:port of the server's gRPC service")
        self.url, self.name, self.version, self.timeout = url, name, version, timeout
        self._channel = (
            grpc.secure_channel(url, credentials, UNLIMITED)
            if credentials
            else grpc.insecure_channel(url, UNLIMITED)
        )
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        request = service_pb2.ModelMetadataRequest(name=name, version=version)
        metadata = self._call(self._stub.ModelMetadata, request)
        self.inputs = {each.name: self._spec(each) for each in metadata.inputs}
        self.outputs = {each.name: self._spec(each) for each in metadata.outputs}

    def infer(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs by name, on the host; `tensors` may lie anywhere and are cast to the inputs' types."""
        request = service_pb2.ModelInferRequest(model_name=self.name, model_version=self.version)
        for name, tensor in tensors.items():
            spec = self.inputs[name]
            request.inputs.add(name=name, datatype=spec.datatype, shape=tensor.shape)
            request.raw_input_contents.append(to_bytes(tensor.to(spec.dtype)))
        answer = self._call(self._stub.ModelInfer, request)
        return {
            output.name: from_bytes(raw, DTYPES[output.datatype], tuple(output.shape))
            for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
        }

    def close(self) -> None:
        self._channel.close()

    def _call(self, method, request):
        try:
            return method(request, timeout=self.timeout)
        except grpc.RpcError as error:
            raise RemoteError(
                f"model '{self.name}' at {self.url}: {error.code().name}: {error.details()}"
            ) from None

    def _spec(self, described) -> TensorSpec:
        if described.datatype not in DTYPES:
            raise RemoteError(
                f"model '{self.name}' at {self.url}: '{described.name}' is of type "
                f"{described.datatype}, expected one of {', '.join(DTYPES)}"
            )
        return TensorSpec(DTYPES[described.datatype], described.datatype, tuple(described.shape))


def to_bytes(tensor: torch.Tensor) -> bytes:
    """Row-major elements, little-endian."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    # NumPy has no bf16; its bits will do.
    return (flat.view(torch.int16) if flat.dtype == torch.bfloat16 else flat).numpy().tobytes()


def from_bytes(raw: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not raw:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)
