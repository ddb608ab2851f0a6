"""ONNX's multi-device annotations: honoured in models, written into plans, refused when they
contradict each other or an operator."""

import numpy as np
import pytest
from sample_models import relative_error

import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, WIDTH, INNER = 6, 8, 12


def mlp(rows=ROWS):
    """y = relu(x w1) w2, with named nodes."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name)
        for name, shape in (("w1", (WIDTH, INNER)), ("w2", (INNER, WIDTH)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="up"),
        helper.make_node("Relu", ["h"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "w2"], ["y"], name="down"),
        helper.make_node("Softmax", ["y"], ["p"], name="soft", axis=-1),
    ]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, WIDTH])
    graph = helper.make_graph(nodes, "mlp", [value("x")], [value("p")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 11
    return model


def annotate(model, node, tensor, dims, devices, groups=None, name="tp=2", num_devices=2):
    """Adds a sharding specification: `dims` maps dimensions to numbers of shards."""
    if not model.configuration:
        configuration = model.configuration.add()
        configuration.name, configuration.num_devices = name, num_devices
    (target,) = [one for one in model.graph.node if one.name == node]
    if not target.device_configurations:
        target.device_configurations.add().configuration_id = model.configuration[0].name
    spec = target.device_configurations[0].sharding_spec.add()
    spec.tensor_name = tensor
    spec.device.extend(devices)
    for key, members in (groups or {}).items():
        entry = spec.index_to_device_group_map.add()
        entry.key = key
        entry.value.extend(members)
    for dim, shards in dims.items():
        sharded = spec.sharded_dim.add()
        sharded.axis = dim
        sharded.simple_sharding.add().num_shards = shards
    return model


def compiled(tutti, folder, model, *options, check=True):
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    return tutti("compile", folder / "model.onnx", "--output", folder / "m", *options, check=check)


def specs_of(plan):
    """Of every node of the plan: tensor -> {dimension: shards}."""
    found = {}
    for node in plan.graph.node:
        for configuration in node.device_configurations:
            assert configuration.configuration_id == plan.configuration[0].name
            for spec in configuration.sharding_spec:
                shards = {dim.axis: dim.simple_sharding[0].num_shards for dim in spec.sharded_dim}
                assert len(spec.device) == np.prod(list(shards.values()))
                found[spec.tensor_name] = shards
    return found


def written_spec(plan, node_name, tensor_name):
    """The one sharding that the plan's node has for the tensor."""
    (spec,) = [
        spec
        for node in plan.graph.node
        if node.name == node_name
        for configuration in node.device_configurations
        for spec in configuration.sharding_spec
        if spec.tensor_name == tensor_name
    ]
    return spec


def test_an_annotated_model_brings_its_mesh_and_layouts(tutti, tmp_path):
    model = annotate(mlp(), "up", "w1", {1: 2}, [0, 1])
    compiled(tutti, tmp_path, model)
    plan = onnx.load(tmp_path / "m/1/model.plan", load_external_data=False)
    (configuration,) = plan.configuration
    assert (configuration.name, configuration.num_devices) == ("tp=2", 2)
    specs = specs_of(plan)
    assert {1: 2} in specs.values()  # the activations between the products
    assert {0: 2} in specs.values()  # the piece of w2
    kinds = [node.op_type for node in plan.graph.node]
    assert kinds.count("AllReduce") == 1


def test_annotations_do_not_change_results(tutti, tmp_path):
    feeds = {"x": np.random.default_rng(1).standard_normal((ROWS, WIDTH), dtype=np.float32)}
    onnx.save(mlp(), tmp_path / "plain.onnx")
    (want,) = tutti.run(tmp_path / "plain.onnx", feeds, tmp_path / "one")
    for i, (node, tensor, dims) in enumerate(
        [("up", "w1", {1: 2}), ("up", "x", {0: 2}), ("soft", "y", {0: 2}), ("down", "y", {-1: 2})]
    ):
        onnx.save(annotate(mlp(), node, tensor, dims, [0, 1]), tmp_path / f"{i}.onnx")
        (got,) = tutti.run(tmp_path / f"{i}.onnx", feeds, tmp_path / f"run{i}")
        assert relative_error(got, want) <= 1e-5


def test_layouts_of_a_plan_make_the_same_plan_again(tutti, tmp_path):
    """What a plan says of a value, put into the model, is what the next plan says of it."""
    compiled(tutti, tmp_path / "first", mlp(), "--mesh", "tp=2", "--no-fuse")
    first = onnx.load(tmp_path / "first/m/1/model.plan", load_external_data=False)
    known = {node.name: set(node.input) | set(node.output) for node in mlp().graph.node}
    model = mlp()
    for node in first.graph.node:
        for configuration in node.device_configurations:
            for spec in configuration.sharding_spec:
                if spec.tensor_name not in known.get(node.name, ()):
                    continue
                dims = {dim.axis: dim.simple_sharding[0].num_shards for dim in spec.sharded_dim}
                annotate(model, node.name, spec.tensor_name, dims, spec.device)
    assert any(node.device_configurations for node in model.graph.node)
    compiled(tutti, tmp_path / "second", model, "--no-fuse")
    second = onnx.load(tmp_path / "second/m/1/model.plan", load_external_data=False)
    assert specs_of(second) == specs_of(first)


def test_replicas_are_groups_of_devices(tutti, tmp_path):
    model = annotate(mlp(), "up", "x", {}, [-1], {-1: [0, 1]})
    compiled(tutti, tmp_path, model)
    plan = onnx.load(tmp_path / "m/1/model.plan", load_external_data=False)
    assert (
        "up"
        not in [
            node.name
            for node in plan.graph.node
            for c in node.device_configurations
            if c.sharding_spec
        ]
        or specs_of(plan).get("x") is None
    )


@pytest.mark.parametrize(
    ("dims", "devices", "groups"),
    [
        ({0: 4}, [0, 1, 2, 3], {}),  # rows over both axes, tp outside
        ({0: 2, 1: 2}, [0, 1, 2, 3], {}),  # rows over tp, columns over cp
        ({0: 2, 1: 2}, [0, 2, 1, 3], {}),  # rows over cp, columns over tp
        ({0: 2}, [-1, -2], {-1: [0, 1], -2: [2, 3]}),  # rows over tp, replicas along cp
        ({0: 2}, [7, 8], {7: [0, 2], 8: [1, 3]}),  # rows over cp, replicas along tp
    ],
)
def test_specifications_over_two_axes_come_back_from_the_plan(
    tutti, tmp_path, dims, devices, groups
):
    feeds = {"x": np.random.default_rng(1).standard_normal((ROWS, WIDTH), dtype=np.float32)}
    onnx.save(mlp(), tmp_path / "plain.onnx")
    (want,) = tutti.run(tmp_path / "plain.onnx", feeds, tmp_path / "one")
    mesh = {"name": "tp=2,cp=2", "num_devices": 4}
    model = annotate(mlp(), "act", "a", dims, devices, groups, **mesh)
    compiled(tutti, tmp_path, model, "--no-fuse")
    plan = onnx.load(tmp_path / "m/1/model.plan", load_external_data=False)
    assert plan.configuration[0].num_devices == 4
    spec = written_spec(plan, "act", "a")
    members = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
    resolved = lambda keys, of: [of.get(key, [key]) for key in keys]
    assert {dim.axis: dim.simple_sharding[0].num_shards for dim in spec.sharded_dim} == dims
    assert resolved(spec.device, members) == resolved(devices, groups)
    (got,) = tutti.run(tmp_path / "model.onnx", feeds, tmp_path / "run")
    assert relative_error(got, want) <= 1e-5


def add_parts(model, node, tensor, axis, parts, devices, **mesh):
    """Shards a dimension that is fused of `parts`: pairs of a size (or a name) and a number of shards."""
    spec_of(annotate(model, node, tensor, {}, devices, **mesh), node).sharded_dim.add().axis = axis
    for size, shards in parts:
        part = spec_of(model, node).sharded_dim[0].simple_sharding.add()
        part.num_shards = shards
        if isinstance(size, str):
            part.dim_param = size
        elif size is not None:
            part.dim_value = size
    return model


def spec_of(model, node):
    (target,) = [one for one in model.graph.node if one.name == node]
    return target.device_configurations[0].sharding_spec[0]


def test_symbolic_dimensions_are_split_at_any_size(tutti, tmp_path):
    onnx.save(mlp("rows"), tmp_path / "plain.onnx")
    model = add_parts(mlp("rows"), "act", "h", 0, [("rows", 3)], [0, 1, 2], name="n", num_devices=3)
    onnx.save(model, tmp_path / "model.onnx")
    for rows in (6, 5, 2):
        feeds = {"x": np.random.default_rng(rows).standard_normal((rows, WIDTH), dtype=np.float32)}
        (want,) = tutti.run(tmp_path / "plain.onnx", feeds, tmp_path / "one")
        (got,) = tutti.run(tmp_path / "model.onnx", feeds, tmp_path / "three")
        assert relative_error(got, want) <= 1e-5


def test_blocks_are_not_cut(tutti, tmp_path):
    """4 blocks of 3 columns over 3 devices: 6, 3 and 3 columns."""
    model = add_parts(mlp(), "act", "a", 1, [(4, 3), (3, 1)], [0, 1, 2], name="tp=3", num_devices=3)
    compiled(tutti, tmp_path, model, "--no-fuse")
    plan = onnx.load(tmp_path / "m/1/model.plan", load_external_data=False)
    spec = written_spec(plan, "act", "a")
    parts = [(part.dim_value, part.num_shards) for part in spec.sharded_dim[0].simple_sharding]
    assert parts == [(4, 3), (3, 1)]
    feeds = {"x": np.random.default_rng(1).standard_normal((ROWS, WIDTH), dtype=np.float32)}
    onnx.save(mlp(), tmp_path / "plain.onnx")
    (want,) = tutti.run(tmp_path / "plain.onnx", feeds, tmp_path / "one")
    (got,) = tutti.run(tmp_path / "model.onnx", feeds, tmp_path / "run")
    assert relative_error(got, want) <= 1e-5


def with_two_configurations():
    """For 2 devices columns of w1 are split, for 4 its rows."""
    model = annotate(mlp(), "up", "w1", {1: 2}, [0, 1])
    configuration = model.configuration.add()
    configuration.name, configuration.num_devices = "four", 4
    placement = model.graph.node[0].device_configurations.add()
    placement.configuration_id = "four"
    spec = placement.sharding_spec.add()
    spec.tensor_name = "w1"
    spec.device.extend(range(4))
    spec.sharded_dim.add().axis = 0
    spec.sharded_dim[0].simple_sharding.add().num_shards = 4
    return model


def test_the_mesh_says_which_of_several_configurations_counts(tutti, tmp_path):
    for mesh, split in (("tp=2", {1: 2}), ("tp=4", {0: 4})):
        folder = tmp_path / mesh
        compiled(tutti, folder, with_two_configurations(), "--mesh", mesh, "--no-fuse")
        plan = onnx.load(folder / "m/1/model.plan", load_external_data=False)
        found = specs_of(plan)
        assert split in found.values()
    done = compiled(tutti, tmp_path, with_two_configurations(), check=False)
    assert "'tp=2' (2 devices), 'four' (4 devices)" in done.stderr and "--mesh" in done.stderr
    done = compiled(tutti, tmp_path, with_two_configurations(), "--mesh", "tp=3", check=False)
    assert "one of them for mesh tp=3 of 3 ranks" in done.stderr


def test_one_pipeline_stage_is_none(tutti, tmp_path):
    model = annotate(mlp(), "up", "w1", {1: 2}, [0, 1])
    model.graph.node[0].device_configurations[0].pipeline_stage = 1
    compiled(tutti, tmp_path, model)


def in_stages(model):
    model = annotate(annotate(model, "up", "w1", {1: 2}, [0, 1]), "soft", "y", {0: 2}, [0, 1])
    for stage, node in ((1, model.graph.node[0]), (2, model.graph.node[3])):
        node.device_configurations[0].pipeline_stage = stage
    return model


def change_spec(change):
    """An annotation of w1 along its columns, changed."""

    def changed(model):
        model = annotate(model, "up", "w1", {1: 2}, [-1, -2], {-1: [0], -2: [1]})
        change(spec_of(model, "up"))
        return model

    return changed


def change_configuration(change):
    def changed(model):
        model = annotate(model, "up", "w1", {1: 2}, [0, 1])
        change(model)
        return model

    return changed


def in_a_function(model):
    model = annotate(model, "up", "w1", {1: 2}, [0, 1])
    inner = helper.make_node("Relu", ["v"], ["r"], name="inner")
    inner.device_configurations.add().configuration_id = "tp=2"
    opset = [helper.make_opsetid("", 18)]
    model.functions.append(helper.make_function("own", "Act", ["v"], ["r"], [inner], opset))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[1].CopyFrom(helper.make_node("Act", ["h"], ["a"], name="act", domain="own"))
    return model


def twice(model):
    return annotate(annotate(model, "up", "x", {0: 2}, [0, 1]), "up", "x", {1: 2}, [0, 1])


def crossed(model):
    return annotate(annotate(model, "act", "h", {0: 2}, [0, 1]), "act", "a", {1: 2}, [0, 1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (twice, ["node 'up'", "'x' disagree", "dimension 0 over tp", "dimension 1 over tp"]),
        (crossed, ["'act'", "'h'", "'a'", "dimension 0", "dimension 1", "rule"]),
        (
            lambda m: annotate(m, "soft", "y", {1: 2}, [0, 1]),
            ["'soft'", "'y'", "dimension 1", "allows no such split"],
        ),
        (
            lambda m: annotate(m, "up", "x", {0: 4}, [0, 1, 2, 3]),
            ["node 'up'", "'x'", "4 shards", "2 devices"],
        ),
        (
            lambda m: annotate(m, "up", "x", {0: 2}, [0]),
            ["node 'up'", "'x'", "2 shards", "lists 1"],
        ),
        (lambda m: annotate(m, "up", "x", {5: 2}, [0, 1]), ["'up'", "'x'", "dimension 5"]),
        (lambda m: annotate(m, "up", "x", {0: 2}, [0, 7]), ["'x'", "device 7"]),
        (lambda m: annotate(m, "up", "x", {0: 2}, [0, 0]), ["'x'", "device 0 twice"]),
        (lambda m: annotate(m, "up", "x", {0: 2}, [1, 0]), ["'x'", "follow no axes of mesh tp=2"]),
        (
            lambda m: annotate(m, "up", "p", {0: 2}, [0, 1]),
            ["node 'up'", "'p'", "neither an input nor an output"],
        ),
        (
            lambda m: annotate(
                m, "act", "h", {0: 2, -2: 2}, range(4), name="tp=2,cp=2", num_devices=4
            ),
            ["'act'", "'h'", "dimension 0 twice: as 0 and as -2"],
        ),
        (
            lambda m: add_parts(m, "act", "h", 0, [(5, 2)], [0, 1]),
            ["'act'", "'h'", "dimension 0 to be 5, expected 6"],
        ),
        (
            lambda m: add_parts(m, "act", "h", -1, [(4, 2), (5, 1)], [0, 1]),
            ["'act'", "'h'", "dimension -1 to be 20, expected 12"],
        ),
        (
            lambda m: add_parts(m, "act", "h", 1, [(4, 1), (3, 2)], [0, 1]),
            ["node 'act'", "'h'", "dimension 1", "cut inside the major one"],
        ),
        (
            lambda m: add_parts(m, "act", "h", 1, [(4, 2), (None, 1)], [0, 1]),
            ["node 'act'", "'h'", "dimension 1", "no size"],
        ),
        (
            lambda m: add_parts(m, "act", "h", 1, [(1, 1 << 62), (12, 1 << 62)], [0, 1]),
            ["node 'act'", "'h'", "for 2 devices"],
        ),
        (
            change_spec(lambda spec: spec.sharded_dim[0].ClearField("axis")),
            ["node 'up'", "'w1'", "no axis"],
        ),
        (
            change_spec(lambda spec: spec.sharded_dim[0].ClearField("simple_sharding")),
            ["node 'up'", "'w1'", "dimension 1", "how many shards"],
        ),
        (
            change_spec(lambda spec: spec.sharded_dim.add().CopyFrom(spec.sharded_dim[0])),
            ["node 'up'", "'w1'", "dimension 1 twice"],
        ),
        (
            change_spec(lambda s: s.index_to_device_group_map.add(key=-1, value=[1])),
            ["node 'up'", "'w1'", "group -1 twice"],
        ),
        (
            change_spec(lambda spec: spec.index_to_device_group_map[1].ClearField("value")),
            ["node 'up'", "'w1'", "leaves out device 1"],
        ),
        (
            change_configuration(lambda m: m.configuration.add(name="tp=2", num_devices=2)),
            ["two device configurations 'tp=2'"],
        ),
        (
            change_configuration(lambda m: m.configuration[0].device.append("gpu0")),
            ["'tp=2' has 2 devices and names 1"],
        ),
        (
            change_configuration(lambda m: setattr(m.configuration[0], "num_devices", 0)),
            ["'tp=2' has 0 devices"],
        ),
        (in_stages, ["node 'up'", "stage 1", "node 'soft'", "stage 2"]),
        (in_a_function, ["node 'inner' inside function 'Act'"]),
    ],
)
def test_contradictions_name_node_value_and_both_sides(tutti, tmp_path, change, words):
    done = compiled(tutti, tmp_path, change(mlp()), check=False)
    assert done.returncode != 0
    for word in words:
        assert word in done.stderr


def test_another_number_of_ranks_is_an_error_or_ignored_on_request(tutti, tmp_path):
    model = annotate(mlp(), "up", "w1", {1: 2}, [0, 1])
    done = compiled(tutti, tmp_path, model, "--mesh", "tp=3", check=False)
    assert "has 2 devices, mesh tp=3 has 3 ranks" in done.stderr
    compiled(tutti, tmp_path, model, "--mesh", "tp=3", "--ignore-annotations")
