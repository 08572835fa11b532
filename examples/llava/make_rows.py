"""Makes rows.jsonl and images/N.npy from chats.jsonl and its PNG files, once before training. For a model of
transformers, use its processor (AutoProcessor) instead of pixels() and of bytes as tokens."""
import json
import os

import numpy
from PIL import Image

from llava import IMAGE, SIDE, TOKENS


def pixels(path):
    image = Image.open(path).convert("RGB").resize((SIDE, SIDE), Image.BICUBIC)
    return (numpy.asarray(image, dtype=numpy.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.25


os.makedirs("images", exist_ok=True)
with open("chats.jsonl") as chats, open("rows.jsonl", "w") as rows:
    for number, line in enumerate(chats):
        chat = json.loads(line)
        before, *parts = chat["prompt"].split("<image>")
        ids = list(before.encode())
        for part in parts:
            ids += [IMAGE] * TOKENS + list(part.encode())
        answer = list(chat["answer"].encode())
        array = numpy.stack([pixels(path) for path in chat["images"]]) if chat["images"] else \
            numpy.zeros((0, 3, SIDE, SIDE), numpy.float32)
        name = f"images/{number}.npy"
        numpy.save(name, array)
        rows.write(json.dumps({"input_ids": ids + answer, "labels": [-100] * len(ids) + answer,
                               "pixel_values": name}) + "\n")
