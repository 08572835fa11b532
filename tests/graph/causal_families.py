"""Tiny configurations of transformers' dense causal language models, which tools/sluice_export.py exports.

FAMILIES maps a model_type to its class and the arguments of its configuration. REFUSED maps model types that
cannot be used as archives to the reason.
"""
import transformers as tf

WIDTHS = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GROUPED = dict(WIDTHS, num_key_value_heads=2)
HEADS = dict(GROUPED, head_dim=8)
DECODER = dict(WIDTHS, is_decoder=True, type_vocab_size=2)
SEQ2SEQ = dict(vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
               is_decoder=True, is_encoder_decoder=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)

FAMILIES = {
    "apertus": ("ApertusForCausalLM", GROUPED),
    "arcee": ("ArceeForCausalLM", GROUPED),
    "bart": ("BartForCausalLM", SEQ2SEQ),
    "bert": ("BertLMHeadModel", DECODER),
    "bert-generation": ("BertGenerationDecoder", dict(WIDTHS, is_decoder=True)),
    "biogpt": ("BioGptForCausalLM", WIDTHS),
    "bitnet": ("BitNetForCausalLM", GROUPED),
    "blenderbot": ("BlenderbotForCausalLM", SEQ2SEQ),
    "blenderbot-small": ("BlenderbotSmallForCausalLM", SEQ2SEQ),
    "bloom": ("BloomForCausalLM", dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1,
                                       eos_token_id=2, pad_token_id=0)),
    "camembert": ("CamembertForCausalLM", DECODER),
    "codegen": ("CodeGenForCausalLM", dict(vocab_size=96, n_positions=64, n_ctx=64, n_embd=32, n_layer=2, n_head=4,
                                           rotary_dim=4, bos_token_id=1, eos_token_id=2)),
    "cohere": ("CohereForCausalLM", GROUPED),
    "cohere2": ("Cohere2ForCausalLM", dict(GROUPED, sliding_window=8, sliding_window_pattern=2)),
    "ctrl": ("CTRLLMHeadModel", dict(vocab_size=96, n_positions=64, n_embd=32, dff=64, n_layer=2, n_head=4)),
    "cwm": ("CwmForCausalLM", dict(HEADS, sliding_window=8)),
    "data2vec-text": ("Data2VecTextForCausalLM", DECODER),
    "diffllama": ("DiffLlamaForCausalLM", GROUPED),
    "doge": ("DogeForCausalLM", GROUPED),
    "electra": ("ElectraForCausalLM", dict(DECODER, embedding_size=32)),
    "ernie": ("ErnieForCausalLM", DECODER),
    "ernie4_5": ("Ernie4_5ForCausalLM", HEADS),
    "exaone4": ("Exaone4ForCausalLM", dict(HEADS, sliding_window=8)),
    "falcon": ("FalconForCausalLM", dict(WIDTHS, alibi=False)),
    "gemma": ("GemmaForCausalLM", HEADS),
    "gemma2": ("Gemma2ForCausalLM", dict(HEADS, sliding_window=8)),
    "gemma3_text": ("Gemma3ForCausalLM", dict(HEADS, sliding_window=8,
                                              layer_types=["sliding_attention", "full_attention"])),
    "glm": ("GlmForCausalLM", HEADS),
    "glm4": ("Glm4ForCausalLM", HEADS),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1,
                                     eos_token_id=2)),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                                                  bos_token_id=1, eos_token_id=2)),
    "gpt_neo": ("GPTNeoForCausalLM", dict(vocab_size=96, max_position_embeddings=64, hidden_size=32, num_layers=2,
                                          num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8,
                                          bos_token_id=1, eos_token_id=2)),
    "gpt_neox": ("GPTNeoXForCausalLM", dict(WIDTHS, rotary_pct=0.5)),
    "gpt_neox_japanese": ("GPTNeoXJapaneseForCausalLM", dict(WIDTHS, intermediate_multiple_size=2)),
    "gptj": ("GPTJForCausalLM", dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4,
                                     bos_token_id=1, eos_token_id=2)),
    "granite": ("GraniteForCausalLM", GROUPED),
    "helium": ("HeliumForCausalLM", HEADS),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM", HEADS),
    "jais2": ("Jais2ForCausalLM", GROUPED),
    "lfm2": ("Lfm2ForCausalLM", dict(GROUPED, layer_types=["conv", "full_attention"])),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mbart": ("MBartForCausalLM", SEQ2SEQ),
    "megatron-bert": ("MegatronBertForCausalLM", DECODER),
    "minicpm3": ("MiniCPM3ForCausalLM", dict(WIDTHS, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8,
                                             qk_rope_head_dim=4, v_head_dim=8)),
    "ministral": ("MinistralForCausalLM", dict(HEADS, sliding_window=8)),
    "ministral3": ("Ministral3ForCausalLM", HEADS),
    "mistral": ("MistralForCausalLM", dict(HEADS, sliding_window=8)),
    "modernbert-decoder": ("ModernBertDecoderForCausalLM", dict(WIDTHS, local_attention=8)),
    "mpt": ("MptForCausalLM", dict(vocab_size=96, d_model=32, n_heads=4, n_layers=2, max_seq_len=64,
                                   expansion_ratio=2)),
    "mvp": ("MvpForCausalLM", SEQ2SEQ),
    "nanochat": ("NanoChatForCausalLM", GROUPED),
    "nemotron": ("NemotronForCausalLM", HEADS),
    "olmo": ("OlmoForCausalLM", GROUPED),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "olmo3": ("Olmo3ForCausalLM", dict(GROUPED, sliding_window=8)),
    "openai-gpt": ("OpenAIGPTLMHeadModel", dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4)),
    "opt": ("OPTForCausalLM", dict(vocab_size=96, hidden_size=32, ffn_dim=64, num_hidden_layers=2,
                                   num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32,
                                   bos_token_id=1, eos_token_id=2, pad_token_id=0)),
    "pegasus": ("PegasusForCausalLM", SEQ2SEQ),
    "persimmon": ("PersimmonForCausalLM", WIDTHS),
    "phi": ("PhiForCausalLM", GROUPED),
    "phi3": ("Phi3ForCausalLM", GROUPED),
    "plbart": ("PLBartForCausalLM", SEQ2SEQ),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", HEADS),
    "rembert": ("RemBertForCausalLM", dict(DECODER, input_embedding_size=16, output_embedding_size=16)),
    "roberta": ("RobertaForCausalLM", DECODER),
    "roberta-prelayernorm": ("RobertaPreLayerNormForCausalLM", DECODER),
    "roformer": ("RoFormerForCausalLM", dict(DECODER, embedding_size=32)),
    "seed_oss": ("SeedOssForCausalLM", HEADS),
    "smollm3": ("SmolLM3ForCausalLM", GROUPED),
    "stablelm": ("StableLmForCausalLM", GROUPED),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED),
    "vaultgemma": ("VaultGemmaForCausalLM", dict(HEADS, sliding_window=8)),
    "xglm": ("XGLMForCausalLM", dict(vocab_size=96, d_model=32, ffn_dim=64, num_layers=2, attention_heads=4,
                                     max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)),
    "xlm-roberta": ("XLMRobertaForCausalLM", DECODER),
    "xlm-roberta-xl": ("XLMRobertaXLForCausalLM", DECODER),
    "xmod": ("XmodForCausalLM", dict(DECODER, languages=["en_XX"], default_language="en_XX")),
    "youtu": ("YoutuForCausalLM", dict(WIDTHS, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8,
                                       qk_rope_head_dim=4, v_head_dim=8)),
    "xlm": ("XLMWithLMHeadModel", dict(vocab_size=96, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64,
                                       causal=True)),
}

LOOP = "it loops in Python over the tokens: the archive has one length, and a node for every token"
REFUSED = {"falcon_mamba": LOOP, "mamba": LOOP, "recurrent_gemma": LOOP, "rwkv": LOOP,
           "xlnet": "it is not causal: its two-stream attention has another graph in evaluation"}


def make(name):
    """Returns (class, configuration) of a family."""
    class_name, arguments = FAMILIES[name]
    model_class = getattr(tf, class_name)
    return model_class, model_class.config_class(**arguments)
