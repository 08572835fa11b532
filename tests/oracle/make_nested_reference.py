#!/usr/bin/env python3
"""Writes tests/reference/nested: tiny vision-language models and transformers' answers for text.

llava: the names of older files (language_model.model...), an untied head, a vision tower in bfloat16.
qwen2_vl: names of a plain model beside visual..., a tied head, positions in three sections.
Each has config.json, model.safetensors and expected.json: input_ids, loss, and grad_norms by stored names.
"""
import json
import pathlib
import sys

HERE = str(pathlib.Path(__file__).resolve().parent)
sys.path[:] = [p for p in sys.path if p != HERE] + [HERE]  # a script of this folder has the name of a package

import torch
import transformers
from safetensors.torch import load_file, save_file

import models
from families import CLIP, qwen_vision

OUT = pathlib.Path(__file__).resolve().parent.parent / "reference" / "nested"
TEXT = dict(vocab_size=260, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=2,
            pad_token_id=None, use_cache=False)
CONFIGS = {
    "llava": lambda: transformers.LlavaConfig(
        text_config={"model_type": "llama", **TEXT}, vision_config=CLIP, image_token_index=259,
        tie_word_embeddings=False),
    "qwen2_vl": lambda: transformers.Qwen2VLConfig(
        text_config={**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [1, 1]}},
        vision_config=qwen_vision(8, first=True), image_token_id=259, video_token_id=258, vision_start_token_id=257,
        vision_end_token_id=256, tie_word_embeddings=True),
}


def main():
    transformers.utils.logging.disable_progress_bar()
    for name, config in CONFIGS.items():
        model = models.random_model(config(), sum(name.encode()))
        directory = OUT / name
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(0, 256, (3, 10))
        found = models.answers(model, {"input_ids": ids, "labels": ids})
        stored = load_file(directory / "model.safetensors")
        if name == "llava":
            stored = {key: value.bfloat16() if key.startswith("vision_tower.") else value for key, value in stored.items()}
            save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
        expected = {
            "source": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "input_ids": ids.tolist(),
            "loss": found["loss"].item(),
            "grad_norms": {key.removeprefix("gradient/"): value.double().norm().item()
                           for key, value in found.items() if key.startswith("gradient/") and value.any()},
        }
        (directory / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
