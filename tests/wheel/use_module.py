"""Checks the Python module in an environment without torch. check_wheel.py runs it."""

import html
import importlib.util
import json
import os
import pathlib
import pickle
import re
import sys
import tempfile
import xml.dom.minidom

import sluice

assert importlib.util.find_spec("torch") is None
assert "torch" not in sys.modules

for name in sluice.schedules():
    made = sluice.schedule(name, ranks=2, microbatches=4)
    assert len(made.rows) == 2, name
    assert sluice.verify(made) == [], (name, sluice.verify(made))
    assert sluice.read(made.csv).stage_to_rank == made.stage_to_rank, name
assert sluice.schedule("zbvzerobubble", 2, 4).stage_to_rank == [0, 1, 1, 0]

order = sluice.schedule("Interleaved1F1B", ranks=4, microbatches=8, stages_per_rank=2)
assert order.stage_to_rank == [0, 1, 2, 3, 0, 1, 2, 3]
step = sluice.simulate(order, "F=1,I=1,W=1,B=2,comm=0")
assert step.makespan > 8 * 2 * 3 and 0 < step.bubble < 1
assert len(step.timeline) == 4 and len(step.live) == 4
assert max(action["end"] for row in step.timeline for action in row) == step.makespan
dearer = sluice.simulate(order, {"F": 2, "I": 2, "W": 2, "B": 4})
assert dearer.makespan == 2 * step.makespan
for svg in [order._repr_svg_(), step._repr_svg_(), sluice.picture(order, "F=1,B=3", critical_path=True)]:
    assert xml.dom.minidom.parseString(svg).documentElement.tagName == "svg"
assert "<script" in sluice.picture(order, format="html")
for shown in (order, step):
    page = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', shown._repr_html_())
    assert page and "<script" in html.unescape(page[1])
assert html.unescape(page[1]) == sluice.picture(order, "F=1,I=1,W=1,B=2,comm=0", format="html")
assert pickle.loads(pickle.dumps(step)) == step
assert (pathlib.Path(sluice.__file__).parent / "py.typed").exists()
assert all(getattr(sluice, name).__annotations__ for name in sluice.__all__ if name != "Error")
assert "<h1>Interleaved1F1B</h1>" in sluice.picture(order, format="html")
assert json.loads(sluice.picture(order, format="json"))["traceEvents"]

wrong = sluice.read("0F0,0F1,0B1,0B0,\n1F0,1B0,1F1,1B1\n")
assert wrong.stage_to_rank == [0, 1]
found = sluice.verify(sluice.read("0F0,0B0\n1B0,1F0\n"))
assert found and found[0]["reason"]
assert "refused" in sluice.picture(sluice.read("0F0,0B0\n1B0,1F0\n"))


def refusal(call):
    try:
        call()
    except sluice.Error as error:
        return error
    raise AssertionError("nothing was raised")


# A text that is not a schedule has neither a proof nor a picture.
for call in (sluice.verify, sluice.picture, sluice.simulate):
    for text, fact in (("0F0,0X0\n1F0,1B0\n", "'0X0' is not an action"), ("\n", "the schedule has no action")):
        error = refusal(lambda: call(sluice.read(text)))
        assert error.code == 3 and fact in error.fact, str(error)
error = refusal(lambda: sluice.read("none.csv"))
assert error.code == 3 and error.where == "none.csv" and "No such file" in error.fact, str(error)

best = sluice.search("F=1,I=1,W=1,B=2,comm=0", ranks=2, microbatches=6, stages_per_rank=2, stage_to_rank="v")
assert sluice.verify(best.schedule) == []
assert best.makespan <= min(each["makespan"] for each in best.named if each["ok"])
assert sluice.simulate(best.schedule, "F=1,I=1,W=1,B=2,comm=0").makespan == best.makespan

parts = sluice.split(layers=8, stages=4, convention="torchtitan")
assert len(parts["stages"]) == 4
assert sluice.split(layers=8, pp=2, split_points=["model.layers.3"])["split_points"] == ["model.layers.3"]
assert len(sluice.split(layers=2, pp=2, modules=[["model.embed_tokens", "model.layers.0"],
                                                 ["model.layers.1", "model.norm", "lm_head"]])["stages"]) == 2

with tempfile.TemporaryDirectory() as folder:
    config = os.path.join(folder, "run.toml")
    model = os.path.join(folder, "config.json")
    with open(model, "w") as file:
        json.dump({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
                   "num_hidden_layers": 4, "vocab_size": 256, "max_position_embeddings": 64}, file)
    with open(config, "w") as file:
        file.write(f'[model]\nconfig = "{model}"\n[data]\nfiles = ["*.txt"]\ntokenizer = "bytes"\n[training]\nseq_len = 16\n')
    values = sluice.plan(config, parallelism__pipeline_parallel_degree=2, training__local_batch_size=4)
    assert values["schedule"]["num_ranks"] == 2
    assert sluice.plan(pathlib.Path(config), data__files=[pathlib.Path("*.md")])["schedule"]["num_ranks"] == 4
    error = refusal(lambda: sluice.plan(config, training__stpes=4))
    assert error.code == 2 and "stpes" in error.fact and "steps" in error.remedy, str(error)
    path = pathlib.Path(folder, "order.csv")
    path.write_text(order.csv)
    assert sluice.read(path) == sluice.read(str(path)) == sluice.read(order.csv)
error = refusal(lambda: sluice.schedule("ZBVZeroBuble", ranks=2, microbatches=4))
assert error.code == 2 and "ZBVZeroBubble" in str(error), str(error)
print("the module does what it says")
