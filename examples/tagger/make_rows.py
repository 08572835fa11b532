"""Writes outputs/tagger/rows.jsonl: words, and the tag of each word, which is the word modulo 5."""
import json
import random

random.seed(0)
with open("outputs/tagger/rows.jsonl", "w") as file:
    for _ in range(64):
        words = [random.randrange(100) for _ in range(12)]
        file.write(json.dumps({"words": words, "tags": [word % 5 for word in words]}) + "\n")
