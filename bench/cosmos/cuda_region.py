"""Memory of a GPU that this process owns and shares with the server: cudaMalloc and cudaIpcGetMemHandle through ctypes.

What tritonclient.utils.cuda_shared_memory does with the package cuda-python, for machines that do not have it.
"""

import base64
import ctypes
import glob
import sysconfig

import numpy as np

HANDLE_BYTES, DEFAULT_KIND = 64, 4


def runtime():
    """libcudart, or None where there is no CUDA or no GPU."""
    packages = sysconfig.get_paths()["purelib"]
    places = [
        "libcudart.so.13",
        "/usr/local/cuda/lib64/libcudart.so.13",
        *glob.glob(f"{packages}/nvidia/*/lib/libcudart.so.13"),
    ]
    for place in places:
        try:
            library = ctypes.CDLL(place)
        except OSError:
            continue
        count = ctypes.c_int(0)
        return library if library.cudaGetDeviceCount(ctypes.byref(count)) == 0 and count else None
    return None


class Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class CudaRegion:
    """`byte_size` bytes on GPU `device`."""

    def __init__(self, library, byte_size, device=0):
        self.library, self.byte_size, self.device = library, byte_size, device
        self.address, handle = ctypes.c_void_p(), Handle()
        self.call("cudaSetDevice", device)
        self.call("cudaMalloc", ctypes.byref(self.address), ctypes.c_size_t(byte_size))
        self.call("cudaIpcGetMemHandle", ctypes.byref(handle), self.address)
        self.handle = bytes(handle)

    def call(self, name, *arguments):
        error = getattr(self.library, name)(*arguments)
        if error != 0:
            self.library.cudaGetErrorString.restype = ctypes.c_char_p
            raise RuntimeError(f"{name}: {self.library.cudaGetErrorString(error).decode()}")

    def raw_handle(self):
        """As tritonclient wants it."""
        return base64.b64encode(self.handle)

    def write(self, content, offset=0):
        """bytes, or an array, to the region; done when it returns."""
        content = np.frombuffer(content, np.uint8)
        self.call("cudaSetDevice", self.device)
        self.copy(self.address.value + offset, content.ctypes.data, content.nbytes)

    def read(self, byte_size, offset=0):
        content = np.empty(byte_size, np.uint8)
        self.copy(content.ctypes.data, self.address.value + offset, byte_size)
        return content.tobytes()

    def copy(self, target, source, byte_size):
        self.call("cudaMemcpy", ctypes.c_void_p(target), ctypes.c_void_p(source),
                  ctypes.c_size_t(byte_size), DEFAULT_KIND)  # fmt: skip
        # Memory of the host may be on its way still when a copy to a device returns.
        self.call("cudaDeviceSynchronize")

    def close(self):
        if self.address.value is not None:
            self.call("cudaFree", self.address)
            self.address = ctypes.c_void_p()
