"""Loads trained weights back into the model: check.py DIRECTORY. Its loss must equal the one in
outputs/tagger/loss.json."""
import glob, json, sys, torch
from safetensors.torch import load_file

sys.path.insert(0, "outputs/tagger")
from tagger import make

model = make()[0].eval()
weights = {}
for file in glob.glob(sys.argv[1] + "/*.safetensors"):
    weights.update(load_file(file))
model.load_state_dict(weights)

rows = [json.loads(line) for line in open("outputs/tagger/rows.jsonl")]
with torch.no_grad():
    out = model(torch.tensor([row["words"] for row in rows]), torch.tensor([row["tags"] for row in rows]))
print("loss in Python", float(out["loss"] / out["count"]))
said = json.load(open("outputs/tagger/loss.json"))
assert abs(float(out["loss"] / out["count"]) - said["loss"]) < 1e-5, said
