#!/usr/bin/env python3
"""Tests tools/sluice_export.py on small modules: contents of archives, and errors. Needs torch. Without
transformers, the tests of its models are skipped with a message.

usage: check_export.py
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import textwrap
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "models"))
sys.path.insert(0, str(HERE.parent.parent / "tools"))

try:
    import torch
except ImportError:
    print("skipped: graph.export: this Python has no torch")
    sys.exit(77)

import sluice_export  # noqa: E402

try:
    import transformers
except ImportError:
    transformers = None


class Tool(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "model.pt2"

    def run_tool(self, *arguments):
        """Returns (exit code, output)."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = sluice_export.main(["--out", str(self.out), *arguments])
            except SystemExit as error:
                code = error.code
        return code, said.getvalue()

    def factory(self, name, *arguments):
        code, said = self.run_tool("--factory", f"small:{name}", *arguments)
        self.assertEqual(code, 0, said)
        return self.facts()

    def entries(self):
        with zipfile.ZipFile(self.out) as archive:
            self.assertTrue(all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist()))
            names = archive.namelist()
            self.assertEqual(len(names), len(set(names)))
            root = "model/"
            return {name.removeprefix(root): archive.read(name) for name in names}

    def facts(self):
        return json.loads(self.entries()["extra/sluice.json"])

    def graph(self):
        return json.loads(self.entries()["models/model.json"])

    def refused(self, code, *texts, arguments):
        got, said = self.run_tool(*arguments)
        self.assertEqual(got, code, said)
        for text in texts:
            self.assertIn(text, said)
        self.assertEqual(len(said.strip().splitlines()) if code == 3 else 1, 1, said)
        self.assertEqual(os.listdir(self.folder), [])


class Export(Tool):
    def test_the_state_that_forward_changes_stays_as_it_was(self):
        import small

        numbers = torch.get_rng_state()
        self.factory("remembers")
        self.assertTrue(torch.equal(torch.get_rng_state(), numbers))
        module = small.Remembers.made[-1]
        self.assertEqual((float(module.count), module.calls, module.seen), (0.0, 0, []))
        self.assertEqual(module.mean.tolist(), [0.5] * 3)
        program = torch.export.load(self.out)
        self.assertEqual(float(program.state_dict["count"]), 0.0)
        self.assertEqual(program.constants["mean"].tolist(), [0.5] * 3)
        self.assertEqual(self.facts()["checked"], "model")

    def test_says_what_the_format_loses(self):
        facts = self.factory("tied")
        self.assertEqual(facts["ties"], [["head.weight", "words.weight"]])
        self.assertEqual([size["name"] for size in facts["sizes"]], ["rows", "length"])
        self.assertEqual(facts["outputs"], ["logits"])
        self.assertEqual((facts["format"], facts["dtype"], facts["weights"]), (1, "float32", True))
        self.assertEqual((facts["checked"], facts["evaluation"], facts["loss"]), ("model", "same", None))
        symbols = {size["name"]: size["symbol"] for size in facts["sizes"]}
        self.assertEqual(self.graph()["range_constraints"][symbols["length"]], {"min_val": 1, "max_val": 32})

    def test_records_of_parameters_are_tied_as_the_model_with_weights_and_without(self):
        for option in ("--weights", "--no-weights"):
            self.factory("tied", option)
            config = json.loads(self.entries()["data/weights/model_weights_config.json"])["config"]
            records = {name: meta["path_name"] for name, meta in config.items()}
            self.assertEqual(records["head.weight"], records["words.weight"])
            self.assertEqual(len(set(records.values())), len(records) - 1)
            self.assertFalse(config["mlp.up.weight"]["tensor_meta"]["requires_grad"])
            self.assertTrue(config["mlp.down.weight"]["tensor_meta"]["requires_grad"])
            sizes = {name: len(data) for name, data in self.entries().items() if "weights/weight_" in name}
            self.assertEqual(any(sizes.values()), option == "--weights")

    def test_archives_without_weights_load_in_torch_and_have_the_names_of_the_model(self):
        facts = self.factory("tied", "--no-weights")
        self.assertFalse(facts["weights"])
        program = torch.export.load(self.out)
        self.assertIn("mlp.up.weight", dict(program.named_parameters()))
        self.assertEqual(program.module()(ids=torch.zeros(3, 5, dtype=torch.int64)).shape, (3, 5, 20))

    def test_source_lines_are_file_and_line(self):
        self.factory("regression")
        traces = [node["metadata"].get("stack_trace", "") for node in self.graph()["graph_module"]["graph"]["nodes"]]
        self.assertTrue(any(trace.startswith("small.py:") for trace in traces))
        self.assertTrue(all("/" not in trace and "\n" not in trace for trace in traces), traces)

    def test_a_module_that_evaluates_otherwise_has_a_second_graph(self):
        facts = self.factory("other")
        self.assertEqual(facts["evaluation"], "other")
        second = json.loads(self.entries()["extra/evaluation.json"])
        targets = [node["target"] for node in second["graph_module"]["graph"]["nodes"]]
        training = [node["target"] for node in self.graph()["graph_module"]["graph"]["nodes"]]
        self.assertIn("torch.ops.aten.mul.Tensor", training)
        self.assertNotIn("torch.ops.aten.mul.Tensor", targets)
        self.assertEqual(second["range_constraints"].keys(), self.graph()["range_constraints"].keys())

    def test_dropout_and_batch_norm_need_no_second_graph(self):
        code, said = self.run_tool("--factory", "unet:make")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.facts()["evaluation"], "same")
        self.assertNotIn("extra/evaluation.json", self.entries())

    def test_a_loss_that_is_a_mean_over_rows_has_no_count(self):
        facts = self.factory("with_loss")
        self.assertEqual(facts["loss"], {"output": "loss", "count": "", "sum": False})

    def test_a_mean_is_not_taken_for_a_sum(self):
        self.refused(3, "no sum over 'count'", arguments=("--factory", "small:wrong_sum"))

    def test_the_example_of_the_help_exports(self):
        _, _, example = sluice_export.__doc__.partition("An example, my_model.py:\n")
        example, _, _ = example.partition("Exit codes:")
        (self.folder / "my_model.py").write_text(textwrap.dedent(example))
        sys.path.insert(0, str(self.folder))
        self.addCleanup(lambda: (sys.path.remove(str(self.folder)), sys.modules.pop("my_model", None)))
        code, said = self.run_tool("--factory", "my_model:make")
        self.assertEqual(code, 0, said)
        facts = self.facts()
        self.assertEqual(facts["loss"], {"output": "loss", "count": "count", "sum": True})
        self.assertEqual([size["name"] for size in facts["sizes"]], ["rows", "length"])
        self.assertLessEqual(len(textwrap.dedent(example).strip().splitlines()), 33)

    def test_no_check_is_said(self):
        self.assertEqual(self.factory("regression", "--no-check")["checked"], "no")

    def test_a_fixed_size_is_none_of_the_sizes(self):
        facts = self.factory("regression", "--size", "rows=4:4:4")
        self.assertEqual(facts["sizes"], [])

    def test_a_size_that_a_loop_depends_on_is_fixed_and_said(self):
        facts = self.factory("loops")
        self.assertEqual([size["name"] for size in facts["sizes"]], ["rows"])
        self.assertTrue(any("'length' is 6" in note for note in facts["notes"]), facts["notes"])

    def test_what_a_value_decides_is_refused_with_the_place(self):
        self.refused(3, "small.py:", "--leaf", arguments=("--factory", "small:decides"))

    def test_a_leaf_is_an_operator_with_its_gradients(self):
        self.refused(3, "small.py:", arguments=("--factory", "small:gated"))
        facts = self.factory("gated", "--leaf", "gates.*=gate")
        self.assertEqual(facts["checked"], "model")
        nodes = [node for node in self.graph()["graph_module"]["graph"]["nodes"]
                 if node["target"] == "torch.ops.sluice.gate.default"]
        self.assertEqual(len(nodes), 2)
        self.assertEqual([item["name"] for item in nodes[1]["inputs"]], ["x", "weight"])
        self.assertEqual(nodes[1]["inputs"][1]["arg"]["as_tensor"]["name"], "p_gates_1_weight")

    def test_checkpointing_of_the_module_leaves_no_trace_but_a_note(self):
        facts = self.factory("checkpointed")
        plain = self.factory("regression")
        self.assertTrue(any("checkpointing" in note for note in facts["notes"]), facts["notes"])
        self.assertFalse(any("checkpointing" in note for note in plain["notes"]))

    def test_calls_that_are_wrong_are_refused(self):
        self.refused(2, "does not end with .pt2", arguments=("--factory", "small:tied", "--out", "model.zip"))
        self.refused(2, "required", arguments=())
        self.refused(3, "MODULE:FUNCTION", arguments=("--factory", "small"))
        self.refused(3, "no function 'none'", arguments=("--factory", "small:none"))
        self.refused(3, "No module named 'not_here'", arguments=("--factory", "not_here:make"))
        self.refused(3, "returned no torch.nn.Module", arguments=("--factory", "small:not_a_module"))
        self.refused(3, "no size of that name; known: rows", arguments=("--factory", "small:regression", "--size", "x=3"))
        self.refused(3, "is not NAME=EXAMPLE", arguments=("--factory", "small:regression", "--size", "rows"))
        self.refused(3, "no module of that path", arguments=("--factory", "small:regression", "--leaf", "nothing"))


@unittest.skipIf(transformers is None, "this Python has no transformers")
class ExportTransformers(Tool):
    def save(self, config, name="hf"):
        directory = self.folder / name
        config.save_pretrained(directory)
        return str(directory)

    def moe(self):
        config = transformers.Qwen3MoeConfig(
            vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=5, num_attention_heads=2,
            num_key_value_heads=1, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8,
            max_position_embeddings=32)
        config.architectures = ["Qwen3MoeForCausalLM"]
        return config

    def test_a_model_without_its_weights(self):
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=32)
        config.architectures = ["LlamaForCausalLM"]
        directory = self.save(config)
        code, said = self.run_tool("--model", directory, "--loss")
        self.assertEqual(code, 0, said)
        facts = self.facts()
        self.assertEqual(facts["outputs"], ["loss", "loss_count", "logits"])
        self.assertEqual(facts["loss"], {"output": "loss", "count": "loss_count", "sum": True})
        self.assertEqual(facts["config"]["model_type"], "llama")
        self.assertEqual(facts["class"], "transformers.models.llama.modeling_llama.LlamaForCausalLM")
        self.assertEqual(facts["checked"], "model")
        weights = json.loads(self.entries()["data/weights/model_weights_config.json"])["config"]
        self.assertIn("model.layers.1.self_attn.q_proj.weight", weights)

    def test_a_model_that_does_not_fit_is_checked_with_two_layers(self):
        directory = self.save(self.moe())
        before = sluice_export.memory_left
        parameters = 4 * 26_000  # below the bytes of five layers, above those of two
        sluice_export.memory_left = lambda: int(4 * parameters / 0.6 * 0.45)
        try:
            code, said = self.run_tool("--model", directory)
        finally:
            sluice_export.memory_left = before
        self.assertEqual(code, 0, said)
        self.assertEqual(self.facts()["checked"], "two layers of each kind")

    def test_experts_that_values_choose_are_refused_with_the_remedy(self):
        directory = self.save(self.moe())
        code, said = self.run_tool("--model", directory, "--experts", "eager")
        self.assertEqual(code, 3, said)
        self.assertIn("--experts batched_mm", said)
        self.assertFalse(self.out.exists())

    def test_a_folder_without_a_configuration_is_refused(self):
        self.refused(3, "config.json is not there", arguments=("--model", str(HERE)))

    def test_unknown_architectures_are_refused(self):
        config = self.moe()
        config.architectures = ["NothingForCausalLM"]
        code, said = self.run_tool("--model", self.save(config))
        self.assertEqual(code, 3, said)
        self.assertIn("no model class 'NothingForCausalLM'", said)
        path = self.folder / "foreign"
        path.mkdir()
        (path / "config.json").write_text('{"model_type": "not_a_model"}')
        code, said = self.run_tool("--model", str(path))
        self.assertEqual(code, 3, said)
        self.assertIn("does not support this model", said)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
