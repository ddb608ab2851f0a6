"""PyTorch modules to ONNX files that `tutti compile` reads. README.md tells how; needs torch and onnx."""

from tutti.export.check import check_export
from tutti.export.exporter import ExportError, ExportReport, export_module
from tutti.export.record import record_calls

__all__ = ["ExportError", "ExportReport", "check_export", "export_module", "record_calls"]
