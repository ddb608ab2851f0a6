"""
What stands in for ``pipe.transformer``: a model served over gRPC, or a local ONNX file.

Both are called as Diffusers calls its transformers, return ``(sample,)``, and keep the
seconds of each call in ``call_seconds``.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np


class _Transformer:
    """Checks and times calls; ``_infer`` of a subclass makes them."""

    ranks = 1

    def __init__(self) -> None:
        self.call_seconds: list[float] = []

    def __call__(
        self, hidden_states: np.ndarray, timestep: np.ndarray, encoder_hidden_states: np.ndarray
    ) -> tuple[np.ndarray]:
        """
        Predict the velocity.

        Parameters
        ----------
        hidden_states
            ``[batch, channels, frames, height, width]``.
        timestep
            ``[batch]``, in [0, 1000].
        encoder_hidden_states
            ``[batch, text_len, dim]``.
        """
        inputs = {
            "hidden_states": hidden_states,
            "timestep": timestep,
            "encoder_hidden_states": encoder_hidden_states,
        }
        inputs = {name: np.ascontiguousarray(value, np.float32) for name, value in inputs.items()}
        start = time.perf_counter()
        sample = self._infer(inputs)
        self.call_seconds.append(time.perf_counter() - start)
        if sample is None or sample.shape != hidden_states.shape:
            shape = "none" if sample is None else list(sample.shape)
            raise RuntimeError(
                f"[transformer] output 'sample': shape {shape}, expected {list(hidden_states.shape)}"
            )
        return (sample,)

    def _infer(self, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
        raise NotImplementedError


class TritonTransformer(_Transformer):
    """
    A transformer served behind Triton's gRPC protocol.

    Parameters
    ----------
    url
        ``host:port`` of the gRPC service.
    model_name
        The served model; its ranks are read from the ``multi_device_gpus`` of its configuration.
    timeout
        Seconds until a call fails.
    """

    def __init__(self, url: str, model_name: str, timeout: float = 600.0):
        import tritonclient.grpc as triton

        super().__init__()
        self._triton, self._timeout = triton, timeout
        self.model_name = model_name
        self._client = triton.InferenceServerClient(url)
        if not self._client.is_model_ready(model_name, client_timeout=timeout):
            raise ConnectionError(f"[transformer] model '{model_name}' at {url} is not ready")
        config = self._client.get_model_config(model_name, client_timeout=timeout).config
        devices = (
            config.parameters["multi_device_gpus"].string_value
            if "multi_device_gpus" in config.parameters
            else ""
        )
        self.ranks = len([device for device in devices.split(",") if device.strip()]) or 1

    def _infer(self, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
        sent = []
        for name, value in inputs.items():
            sent.append(self._triton.InferInput(name, list(value.shape), "FP32"))
            sent[-1].set_data_from_numpy(value)
        wanted = [self._triton.InferRequestedOutput("sample")]
        answer = self._client.infer(
            self.model_name, sent, outputs=wanted, client_timeout=self._timeout
        )
        return answer.as_numpy("sample")

    def close(self) -> None:
        self._client.close()


class OnnxTransformer(_Transformer):
    """The transformer of an ONNX file, run by onnxruntime in this process."""

    def __init__(self, path: str | Path, threads: int = 0):
        super().__init__()
        self._session = onnx_session(path, threads)

    def _infer(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        return self._session.run(["sample"], inputs)[0]

    def close(self) -> None:
        pass


def onnx_session(path: str | Path, threads: int = 0):
    """An onnxruntime session on the CPU; 0 threads means one for each core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
