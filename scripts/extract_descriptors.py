#!/usr/bin/env python3
"""Writes the protocol descriptors that installed Python packages carry, for protoc.

    extract_descriptors.py onnx|kserve|otlp OUTPUT

Packages hold their protocols as serialised FileDescriptorProtos; protoc takes a
FileDescriptorSet (--descriptor_set_in), so no .proto file is copied into this repository.
"""

import sys
from pathlib import Path

from google.protobuf import descriptor_pb2


def onnx_files():
    from onnx import onnx_ml_pb2

    return [(onnx_ml_pb2, "onnx.proto")]


def kserve_files():
    from grpc_health.v1 import health_pb2
    from tritonclient.grpc import model_config_pb2, service_pb2

    # Dependencies first: protoc reads the set in order.
    return [
        (model_config_pb2, "model_config.proto"),
        (service_pb2, "grpc_service.proto"),
        (health_pb2, "health.proto"),
    ]


def otlp_files():
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.resource.v1 import resource_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2

    # Their own names: they import each other by these.
    modules = (common_pb2, resource_pb2, trace_pb2, trace_service_pb2)
    return [(module, module.DESCRIPTOR.name) for module in modules]


GROUPS = {"onnx": onnx_files, "kserve": kserve_files, "otlp": otlp_files}


def describe(module, name):
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    # Debian's protoc 3.21 knows proto2 and proto3 only.
    if file.syntax not in ("", "proto2", "proto3"):
        raise SystemExit(f"{file.name}: syntax '{file.syntax}' is newer than protoc 3.21")
    file.name = name
    # ONNX asks for the lite run time; we want text format and reflection.
    file.options.ClearField("optimize_for")
    return file


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in GROUPS:
        raise SystemExit(f"usage: {sys.argv[0]} {'|'.join(GROUPS)} OUTPUT")
    files = descriptor_pb2.FileDescriptorSet()
    for module, name in GROUPS[sys.argv[1]]():
        files.file.append(describe(module, name))
    Path(sys.argv[2]).write_bytes(files.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
