"""Traces: files as Triton writes them, and OpenTelemetry spans at a receiver that we did not write."""

import json
import threading
import time
from concurrent import futures

import grpc
import numpy as np
import pytest
import tritonclient.http as http_client
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as otlp_grpc
from raw_http import ask
from serving import assert_well, infer_affine, tensor
from tritonclient.utils import InferenceServerException

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN_ID = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


class Collector(otlp_grpc.TraceServiceServicer):
    """OTLP's receiver out of the opentelemetry-proto wheel."""

    def __init__(self, port=0, credentials=None):
        self.requests = []
        self.metadata = []
        self.changed = threading.Condition()
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        otlp_grpc.add_TraceServiceServicer_to_server(self, self.server)
        address = f"127.0.0.1:{port}"
        self.port = (
            self.server.add_secure_port(address, credentials)
            if credentials
            else self.server.add_insecure_port(address)
        )
        self.url = f"127.0.0.1:{self.port}"
        self.server.start()

    def Export(self, request, context):
        with self.changed:
            self.requests.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            self.changed.notify_all()
        return otlp.ExportTraceServiceResponse()

    def spans(self):
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait(self, is_enough, timeout=60):
        with self.changed:
            assert self.changed.wait_for(lambda: is_enough(self.spans()), timeout), self.spans()
            return self.spans()

    def roots(self, count):
        """Waits for the traces of `count` requests; their root spans."""

        def roots(spans):
            return [span for span in spans if span.name == "InferRequest"]

        return roots(self.wait(lambda spans: len(roots(spans)) >= count))


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.server.stop(None)


def otlp_options(url, *more, rate=1):
    configs = (
        "mode=opentelemetry",
        "level=TIMESTAMPS",
        f"rate={rate}",
        f"opentelemetry,url={url}",
        "opentelemetry,bsp_schedule_delay=50",
        *more,
    )
    return [part for config in configs for part in ("--trace-config", config)]


def file_options(path, *configs):
    configs = (f"triton,file={path}", *configs)
    return [part for config in configs for part in ("--trace-config", config)]


def attributes(span):
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def tree(spans, trace_id):
    """Names of one trace's spans, each below its parent: {path: span}."""
    own = {span.span_id: span for span in spans if span.trace_id == trace_id}

    def path(span):
        parent = own.get(span.parent_span_id)
        return (*path(parent), span.name) if parent else (span.name,)

    return {path(span): span for span in own.values()}


def assert_inside(span, parent):
    assert parent.start_time_unix_nano <= span.start_time_unix_nano
    assert span.start_time_unix_nano <= span.end_time_unix_nano <= parent.end_time_unix_nano


COMPUTE = ("InferRequest", "attention_cp3", "compute")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_spans_of_a_request_on_three_ranks(repository, start, collector, protocol):
    repository.add("attention_cp3")
    options = otlp_options(collector.url, "opentelemetry,resource=service.name=a=b")
    server = start(repository.path, options=options)
    x = np.zeros((1, 48, 48), np.float32)
    before = time.time_ns()
    if protocol == "grpc":
        server.client.infer("attention_cp3", [tensor("x", x, "FP32")], request_id="r1")
    else:
        client = http_client.InferenceServerClient(server.http_url)
        sent = http_client.InferInput("x", [1, 48, 48], "FP32")
        sent.set_data_from_numpy(x)
        client.infer("attention_cp3", [sent], request_id="r1")
    after = time.time_ns()
    (root,) = collector.roots(1)
    spans = tree(collector.spans(), root.trace_id)
    assert set(spans) == {
        ("InferRequest",),
        COMPUTE[:2],
        (*COMPUTE[:2], "queue"),
        COMPUTE,
        (*COMPUTE, "compute_input"),
        (*COMPUTE, "compute_infer"),
        *((*COMPUTE, "compute_infer", f"rank {rank}") for rank in range(3)),
        (*COMPUTE, "compute_output"),
    }
    for path, span in spans.items():
        if len(path) > 1:
            assert_inside(span, spans[path[:-1]])
    assert root.parent_span_id == b""
    assert root.kind == root.SPAN_KIND_SERVER
    # Two clocks of one machine: a little apart at most.
    slack = 50_000_000
    assert before - slack <= root.start_time_unix_nano <= after + slack
    assert attributes(root)["network.protocol.name"] == protocol
    prefix = {"grpc": "GRPC", "http": "HTTP"}[protocol]
    events = [event.name for event in root.events]
    assert events[-2:] == [f"{prefix}_SEND_START", f"{prefix}_SEND_END"]
    model = attributes(spans[COMPUTE[:2]])
    assert model["triton.model_name"] == "attention_cp3"
    assert model["triton.model_version"] == 1
    assert model["triton.request_id"] == "r1"
    for rank in range(3):
        span = spans[(*COMPUTE, "compute_infer", f"rank {rank}")]
        took = span.end_time_unix_nano - span.start_time_unix_nano
        assert 0 < attributes(span)["tutti.exchange_ns"] <= took
    (resource,) = collector.requests[0].resource_spans
    assert attributes(resource.resource) == {"service.name": "a=b"}


def test_callers_traces_go_on_here(repository, start, collector):
    """W3C's traceparent, over both front ends, whatever the rate says."""
    repository.add("affine")
    server = start(repository.path, options=otlp_options(collector.url, rate=0))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    infer_affine(server.client)  # has no context: not traced
    server.client.infer("affine", [tensor("x", x, "FP32")], headers=headers)
    body = '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}'
    url = "/v2/models/affine/infer"
    assert ask(server.http_url, "POST", url, body, headers=headers).status == 200
    roots = collector.roots(2)
    assert len(roots) == 2
    for root in roots:
        assert root.trace_id.hex() == TRACE_ID
        assert root.parent_span_id.hex() == SPAN_ID
        assert root.trace_state == "vendor=1"
    assert {attributes(root)["network.protocol.name"] for root in roots} == {"grpc", "http"}
    spans = collector.spans()
    assert {span.trace_id.hex() for span in spans} == {TRACE_ID}
    assert len({span.span_id for span in spans}) == len(spans)


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01-more",
        f"00-{TRACE_ID}-{SPAN_ID}-0x",
        f"00-{TRACE_ID}-{SPAN_ID}-00",  # well, but says: not traced
        "x" * 5000,
    ],
)
def test_contexts_that_are_none_begin_no_trace(repository, start, collector, traceparent):
    repository.add("affine")
    server = start(repository.path, options=otlp_options(collector.url, rate=0))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for value in (traceparent, TRACEPARENT):
        server.client.infer("affine", [tensor("x", x, "FP32")], headers={"traceparent": value})
    assert len(collector.roots(1)) == 1
    assert server.stop() == 0
    assert len(collector.roots(1)) == 1


def test_failures_are_spans_with_an_error(repository, start, collector):
    repository.add("affine")
    server = start(repository.path, options=otlp_options(collector.url))
    with pytest.raises(InferenceServerException):
        server.client.infer("affine", [tensor("x", np.zeros((2, 3), np.float32), "FP32")])
    (root,) = collector.roots(1)
    assert root.status.code == root.status.STATUS_CODE_ERROR
    assert "input 'x'" in root.status.message
    spans = tree(collector.spans(), root.trace_id)
    assert set(spans) == {("InferRequest",), ("InferRequest", "affine")}


def test_steps_of_an_ensemble_are_below_it(repository, start, collector):
    repository.add("affine")
    folder = repository.path / "twice"
    (folder / "1").mkdir(parents=True)
    step = 'step {{ model_name: "affine" model_version: -1 input_map {{ key: "x" value: "{}" }} '
    step += 'output_map {{ key: "y" value: "{}" }} }}'
    (folder / "config.pbtxt").write_text(
        'platform: "ensemble" input { name: "a" data_type: TYPE_FP32 dims: [-1, 4] } '
        'output { name: "c" data_type: TYPE_FP32 dims: [-1, 4] } '
        "ensemble_scheduling {" + step.format("a", "b") + step.format("b", "c") + "}"
    )
    server = start(repository.path, options=otlp_options(collector.url))
    x = np.ones((1, 4), np.float32)
    y = server.client.infer("twice", [tensor("a", x, "FP32")]).as_numpy("c")
    np.testing.assert_array_equal(y, 2 * (2 * x + 1) + 1)
    (root,) = collector.roots(1)
    spans = [span for span in collector.spans() if span.trace_id == root.trace_id]
    (ensemble,) = (span for span in spans if span.name == "twice")
    steps = [span for span in spans if span.name == "affine"]
    assert len(steps) == 2
    for step in steps:
        assert step.parent_span_id == ensemble.span_id
        assert_inside(step, ensemble)
    runs = [span for span in spans if span.name == "rank 0"]
    assert len(runs) == 2


def test_streams_are_traced_request_by_request(repository, start, collector):
    repository.add("affine")
    server = start(repository.path, options=otlp_options(collector.url))
    answers = []
    done = threading.Event()

    def answered(result, error):
        answers.append((result, error))
        if len(answers) == 3:
            done.set()

    server.client.start_stream(answered, headers={"traceparent": TRACEPARENT})
    for _ in range(3):
        server.client.async_stream_infer(
            "affine", [tensor("x", np.ones((1, 4), np.float32), "FP32")]
        )
    assert done.wait(60)
    server.client.stop_stream()
    roots = collector.roots(3)
    assert {root.trace_id.hex() for root in roots} == {TRACE_ID}
    assert len({root.span_id for root in roots}) == 3


def test_a_collector_that_is_gone_changes_nothing(repository, start):
    """Nor one that comes back: spans that find room then arrive."""
    gone = Collector()
    port = gone.port
    gone.server.stop(None).wait()
    repository.add("affine")
    options = otlp_options(
        f"http://127.0.0.1:{port}",
        "opentelemetry,bsp_max_queue_size=64",
        "opentelemetry,bsp_max_export_batch_size=32",
    )
    server = start(repository.path, options=options)
    for _ in range(200):
        infer_affine(server.client)
    assert_well(server.client)
    metrics = ask(server.metrics_url, "GET", "/metrics").body.decode()
    dropped = next(line for line in metrics.splitlines() if line.startswith("tutti_trace_dropped"))
    assert float(dropped.split()[-1]) > 0
    back = Collector(port)
    try:
        for _ in range(3):
            infer_affine(server.client)
        assert back.roots(1)
    finally:
        back.server.stop(None)
    assert server.stop() == 0
    log = server.log.read_text()
    assert log.count("does not take traces") <= 2, "a line, not one a batch"


@pytest.mark.parametrize("mutual", [False, True])
def test_spans_travel_encrypted(repository, start, certificates, mutual):
    def read(name):
        return (certificates / name).read_bytes()

    credentials = grpc.ssl_server_credentials(
        [(read("server.key"), read("server.crt"))], read("ca.crt") if mutual else None, mutual
    )
    collector = Collector(credentials=credentials)
    options = [
        f"opentelemetry,certificate={certificates / 'ca.crt'}",
        "opentelemetry,header=Authorization=Bearer a=b",
        "opentelemetry,header=x-scope=test",
    ]
    if mutual:
        options += [f"opentelemetry,client_certificate={certificates / 'client.crt'}"]
        options += [f"opentelemetry,client_key={certificates / 'client.key'}"]
    repository.add("affine")
    try:
        server = start(repository.path, options=otlp_options(f"https://{collector.url}", *options))
        infer_affine(server.client)
        assert len(collector.roots(1)) == 1
        assert collector.metadata[0]["authorization"] == "Bearer a=b"
        assert collector.metadata[0]["x-scope"] == "test"
        shown = server.client.get_trace_settings().settings
        assert "Bearer" not in str(shown)
    finally:
        collector.server.stop(None)


def test_a_collector_of_another_authority_gets_nothing(repository, start, certificates):
    """The certificate is not one of the machine's own authorities."""
    pair = [(certificates / name).read_bytes() for name in ("server.key", "server.crt")]
    collector = Collector(credentials=grpc.ssl_server_credentials([pair]))
    repository.add("affine")
    try:
        server = start(repository.path, options=otlp_options(f"https://{collector.url}"))
        infer_affine(server.client)
        assert server.stop() == 0
        assert collector.requests == []
        assert "does not take traces" in server.log.read_text()
    finally:
        collector.server.stop(None)


def test_what_waits_is_sent_at_the_end(repository, start, collector):
    repository.add("affine")
    options = otlp_options(collector.url, "opentelemetry,bsp_schedule_delay=3600000")
    server = start(repository.path, options=options)
    infer_affine(server.client)
    assert server.stop() == 0
    assert len(collector.roots(1)) == 1


def read_traces(path):
    """{id: (description, {event: ns}, tensors)} of a trace file."""
    traces = {}
    for entry in json.loads(path.read_text()):
        description, events, tensors = traces.setdefault(entry["id"], ({}, {}, []))
        if "timestamps" in entry:
            for stamp in entry["timestamps"]:
                events[stamp["name"]] = stamp["ns"]
        elif "tensor" in entry:
            tensors.append((entry["activity"], entry["tensor"]))
        else:
            description.update(entry)
    return traces


ORDER = (
    *("REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END"),
    *("COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END"),
)


def test_a_trace_file_as_tritons_tools_read_it(repository, start, tmp_path):
    repository.add("affine")
    path = tmp_path / "trace.json"
    server = start(repository.path, options=file_options(path, "level=TIMESTAMPS", "rate=2"))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for i in range(4):
        server.client.infer("affine", [tensor("x", x, "FP32")], request_id=f"grpc {i}")
    client = http_client.InferenceServerClient(server.http_url)
    sent = http_client.InferInput("x", [2, 4], "FP32")
    sent.set_data_from_numpy(x)
    for i in range(2):
        client.infer("affine", [sent], request_id=f"http {i}")
    assert server.stop() == 0
    traces = read_traces(path)
    names = [description["request_id"] for description, _, _ in traces.values()]
    assert sorted(names) == ["grpc 1", "grpc 3", "http 1"], "every second one"
    for description, events, tensors in traces.values():
        assert description["model_name"] == "affine"
        assert description["model_version"] == 1
        assert tensors == []
        protocol = description["request_id"].split()[0].upper()
        first = {"GRPC": "GRPC_WAITREAD", "HTTP": "HTTP_RECV"}[protocol]
        around = (
            f"{first}_START",
            f"{first}_END",
            f"{protocol}_SEND_START",
            f"{protocol}_SEND_END",
        )
        assert set(events) == {*ORDER, *around}
        ordered = [events[name] for name in (around[0], around[1], *ORDER, around[2], around[3])]
        assert ordered == sorted(ordered)


def test_tensors_in_a_trace_file(repository, start, tmp_path):
    repository.add("affine")
    path = tmp_path / "trace.json"
    server = start(repository.path, options=file_options(path, "level=TENSORS", "rate=1"))
    x = np.array([[0, 1, 2, 3]], np.float32)
    server.client.infer("affine", [tensor("x", x, "FP32")])
    assert server.stop() == 0
    ((description, events, tensors),) = read_traces(path).values()
    assert description["model_name"] == "affine"
    assert events == {}, "not asked for"
    assert [(activity, t["name"], t["shape"], t["dtype"]) for activity, t in tensors] == [
        ("TENSOR_QUEUE_INPUT", "x", "1,4", "FP32"),
        ("TENSOR_BACKEND_OUTPUT", "y", "1,4", "FP32"),
    ]
    values = [[float(v) for v in t["data"].split(",")] for _, t in tensors]
    assert values == [[0, 1, 2, 3], [1, 3, 5, 7]]


def test_log_frequency_and_count_make_files_with_an_index(repository, start, tmp_path):
    repository.add("affine")
    path = tmp_path / "trace.json"
    configs = ("level=TIMESTAMPS", "rate=1", "count=5", "triton,log-frequency=2")
    server = start(repository.path, options=file_options(path, *configs))
    for _ in range(9):
        infer_affine(server.client)
    assert server.client.get_trace_settings(as_json=True)["settings"]["trace_count"]["value"] == [
        "0"
    ]
    assert server.stop() == 0
    files = sorted(file.name for file in tmp_path.glob("trace.json*"))
    assert files == ["trace.json.0", "trace.json.1", "trace.json.2"]
    assert [len(read_traces(tmp_path / file)) for file in files] == [2, 2, 1]


DEFAULTS = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


def over_grpc(settings):
    return {
        name: list(setting.value) if name == "trace_level" else setting.value[0]
        for name, setting in settings.settings.items()
    }


def test_settings_over_both_front_ends(repository, start, tmp_path):
    repository.add("affine")
    repository.add("add_sub")
    path = tmp_path / "trace.json"
    server = start(repository.path, options=file_options(path))
    http = http_client.InferenceServerClient(server.http_url)
    defaults = {**DEFAULTS, "trace_file": str(path)}
    assert http.get_trace_settings() == defaults
    assert over_grpc(server.client.get_trace_settings()) == defaults
    # A model's own settings; what they leave open follows the global ones.
    own = http.update_trace_settings("affine", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
    assert own == {**defaults, "trace_level": ["TIMESTAMPS"], "trace_rate": "1"}
    changed = server.client.update_trace_settings(
        settings={"trace_rate": "7", "trace_level": ["TIMESTAMPS", "TENSORS"], "trace_count": "9"}
    )
    levels = ["TIMESTAMPS", "TENSORS"]
    expected = {**defaults, "trace_rate": "7", "trace_level": levels, "trace_count": "9"}
    assert over_grpc(changed) == expected
    assert http.get_trace_settings("add_sub") == expected
    assert http.get_trace_settings("affine") == {
        **expected,
        "trace_level": ["TIMESTAMPS"],
        "trace_rate": "1",
    }
    # Nothing gives a setting back.
    assert http.update_trace_settings("affine", {"trace_level": None, "trace_rate": None}) == (
        expected
    )
    cleared = server.client.update_trace_settings(
        settings={"trace_rate": [], "trace_level": None, "trace_count": None}
    )
    assert over_grpc(cleared) == defaults
    # They have an effect.
    http.update_trace_settings("affine", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
    infer_affine(server.client)
    zeros = np.zeros((1, 16), np.int32)
    inputs = [tensor(name, zeros, "INT32") for name in ("INPUT0", "INPUT1")]
    server.client.infer("add_sub", inputs)
    assert server.stop() == 0
    assert [d["model_name"] for d, _, _ in read_traces(path).values()] == ["affine"]


@pytest.mark.parametrize(
    ("settings", "message", "http_status"),
    [
        ({"trace_file": "/tmp/x"}, "trace file location can not be updated", 501),
        ({"trace_mode": "opentelemetry"}, "trace mode can not be updated", 501),
        ({"trace_level": ["EVERYTHING"]}, "'EVERYTHING' is no level", 400),
        ({"trace_level": ["OFF", "TENSORS"]}, "OFF stands beside other levels", 400),
        ({"trace_level": ["TIMESTAMPS"]}, "needs a trace file", 400),
        ({"trace_rate": "-1"}, "trace setting 'trace_rate': '-1'", 400),
        ({"trace_rate": "4294967296"}, "trace setting 'trace_rate'", 400),
        ({"trace_rate": "1x"}, "trace setting 'trace_rate'", 400),
        ({"trace_rate": ["1", "2"]}, "has 2 values", 400),
        ({"trace_count": "-2"}, "trace setting 'trace_count'", 400),
        ({"log_frequency": ""}, "trace setting 'log_frequency'", 400),
        ({"trace_colour": "red"}, "trace setting 'trace_colour': is not known", 400),
    ],
)
def test_settings_that_cannot_be(served, settings, message, http_status):
    with pytest.raises(InferenceServerException) as caught:
        served.client.update_trace_settings(settings=settings)
    assert message in caught.value.message()
    answer = ask(served.http_url, "POST", "/v2/trace/setting", json.dumps(settings))
    assert (answer.status, message in answer.json()["error"]) == (http_status, True)
    answer = ask(served.http_url, "GET", "/v2/trace/setting").json()
    assert answer == DEFAULTS, "nothing has changed"


def test_settings_of_a_model_that_is_not_there(served):
    with pytest.raises(InferenceServerException) as caught:
        served.client.get_trace_settings("nobody")
    assert "Request for unknown model : 'nobody'" in caught.value.message()
    assert ask(served.http_url, "GET", "/v2/models/nobody/trace/setting").status == 400


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ("level=EVERYTHING", "'EVERYTHING' is no level"),
        ("rate", "expected [MODE,]SETTING=VALUE"),
        ("rate=x", "'x' is no whole number"),
        ("mode=jaeger", "expected triton or opentelemetry"),
        ("triton,url=x", "expected file or log-frequency"),
        ("opentelemetry,file=x", "is not known"),
        ("zipkin,url=x", "begins with no mode"),
        ("level=TIMESTAMPS", "a level needs a file"),
        ("opentelemetry,url=http://localhost:4318/v1/traces", "expected HOST:PORT"),
        ("opentelemetry,bsp_max_export_batch_size=4096", "expected at most bsp_max_queue_size"),
        ("opentelemetry,resource=x", "is no KEY=VALUE"),
        ("opentelemetry,header=x", "is no KEY=VALUE"),
        ("opentelemetry,header=a b=x", "'a b' is no name of a header"),
        ("opentelemetry,header=a=\n", "holds more than printable ASCII"),
        ("opentelemetry,certificate=/nowhere.pem", "'/nowhere.pem' cannot be read"),
        ("opentelemetry,client_key=/etc/passwd", "'/etc/passwd' is no PEM file"),
    ],
)
def test_flags_that_are_wrong_say_so(repository, start, config, part):
    with pytest.raises(RuntimeError) as caught:
        start(repository.path, options=("--trace-config", config))
    assert "--trace-config" in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"certificate": "ca.crt", "url": "localhost:4317"}, "is without TLS"),
        (
            {"client_key": "client.key", "url": "https://localhost:1"},
            "client_certificate is missing",
        ),
        (
            {"client_certificate": "client.crt", "url": "https://localhost:1"},
            "client_key is missing",
        ),
        ({"url": "https://localhost:4318/v1/traces"}, "expected HOST:PORT"),
    ],
)
def test_settings_that_contradict_each_other_say_so(
    repository, start, certificates, settings, part
):
    files = {
        name: value if name == "url" else certificates / value for name, value in settings.items()
    }
    options = [
        text
        for name, value in files.items()
        for text in ("--trace-config", f"opentelemetry,{name}={value}")
    ]
    with pytest.raises(RuntimeError) as caught:
        start(repository.path, options=options)
    assert part in str(caught.value)
