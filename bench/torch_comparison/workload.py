"""The model, tokens and settings that both systems train with. Imports neither torch nor transformers at the
top, so that the program that starts the others stays small."""

import dataclasses
import json

LR, BETAS, EPS, WEIGHT_DECAY, MAX_NORM = 3e-4, (0.9, 0.95), 1e-8, 0.1, 1.0


@dataclasses.dataclass(frozen=True)
class Size:
    """A Llama. A microbatch is one sequence of seq_len tokens."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq_len: int


SIZES = {
    "tiny": Size(hidden=32, layers=4, heads=4, kv_heads=2, ffn=48, vocab=64, seq_len=16),  # for a test
    "S": Size(hidden=256, layers=8, heads=8, kv_heads=4, ffn=688, vocab=4096, seq_len=256),
    "M": Size(hidden=768, layers=12, heads=12, kv_heads=4, ffn=2048, vocab=8192, seq_len=512),
}

# Every schedule of torch.distributed.pipelining: stages per rank, and whether they are placed in a V.
SCHEDULES = {
    "GPipe": (1, False),
    "1F1B": (1, False),
    "Interleaved1F1B": (2, False),
    "LoopedBFS": (2, False),
    "InterleavedZeroBubble": (2, False),
    "ZBVZeroBubble": (2, True),
    "DualPipeV": (2, True),
}


def stages_of_rank(schedule, rank, ranks):
    per_rank, is_v = SCHEDULES[schedule]
    if is_v:
        return [rank, 2 * ranks - 1 - rank]
    return [rank + i * ranks for i in range(per_rank)]


def layers_of_stage(layers, stage, num_stages):
    """Returns the layers of a stage: an even split with the remainder first, which is sluice's default. The
    first stage also has the embedding, and the last one norm and head. Neither counts."""
    least, more = divmod(layers, num_stages)
    first = stage * least + min(stage, more)
    return range(first, first + least + (stage < more))


def model_config(size):
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=size.vocab, hidden_size=size.hidden, intermediate_size=size.ffn, num_hidden_layers=size.layers,
        num_attention_heads=size.heads, num_key_value_heads=size.kv_heads, tie_word_embeddings=False,
        max_position_embeddings=size.seq_len, attn_implementation="sdpa")


def make_inputs(folder, size, num_rows):
    """Writes FOLDER/model, a Hugging Face directory with random weights, and FOLDER/rows.jsonl."""
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    LlamaForCausalLM(model_config(size)).save_pretrained(f"{folder}/model")
    rows = torch.randint(size.vocab, (num_rows, size.seq_len))
    with open(f"{folder}/rows.jsonl", "w", encoding="utf-8") as file:
        for row in rows.tolist():
            file.write(json.dumps({"input_ids": row}) + "\n")


def read_rows(folder):
    """Returns the tokens, and the labels of the positions that predict them (-100: none)."""
    import torch

    with open(f"{folder}/rows.jsonl", encoding="utf-8") as file:
        rows = torch.tensor([json.loads(line)["input_ids"] for line in file])
    labels = torch.full_like(rows, -100)
    labels[:, :-1] = rows[:, 1:]
    return rows, labels


def whole_model_on_meta(size):
    """Makes transformers' modules without memory."""
    import torch
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        return LlamaForCausalLM(model_config(size))


def make_part(whole, size, layers, has_embedding, has_head):
    """Makes a stage from transformers' modules, with memory but without values. Cosines and sines are
    computed once, which is faster: transformers computes them in every forward."""
    import torch

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.names = {}  # parameter name here -> name in the directory
            self.embed = self.take(whole.model.embed_tokens, "embed", "model.embed_tokens") if has_embedding else None
            self.layers = torch.nn.ModuleList(
                self.take(whole.model.layers[index], f"layers.{i}", f"model.layers.{index}")
                for i, index in enumerate(layers))
            self.norm = self.take(whole.model.norm, "norm", "model.norm") if has_head else None
            self.head = self.take(whole.lm_head, "head", "lm_head") if has_head else None

        def take(self, module, here, there):
            for name, _ in module.named_parameters():
                self.names[f"{here}.{name}"] = f"{there}.{name}"
            return module

        def forward(self, x):
            hidden = self.embed(x) if self.embed is not None else x
            for layer in self.layers:
                hidden = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=rotary)
            return self.head(self.norm(hidden)) if self.head is not None else hidden

    positions = torch.arange(size.seq_len).unsqueeze(0)
    rotary = type(whole.model.rotary_emb)(model_config(size))(torch.zeros(1), positions)
    return Part().to_empty(device="cpu")


def load_part(part, folder):
    """Copies the part's own tensors from the file into place. A rank never holds the whole model."""
    import torch
    from safetensors import safe_open

    with safe_open(f"{folder}/model/model.safetensors", "pt") as file, torch.no_grad():
        for name, parameter in part.named_parameters():
            parameter.copy_(file.get_tensor(part.names[name]))


def loss_of(logits, labels):
    import torch

    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
