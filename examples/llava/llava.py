"""A LLaVA of transformers for sluice_export.py. Each row has text and any number of images."""
import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
from transformers.models.llava.modeling_llava import LlavaModel

IMAGE, SIDE, PATCH = 255, 16, 8  # id of the image token; side of an image and of a patch in pixels
TOKENS = (SIDE // PATCH) ** 2    # image tokens per image in the text


def image_features(self, pixel_values, **_):
    # transformers makes a list with an entry for each image, which fixes their number in an exported graph. A
    # microbatch may have no image, but CLIP's attention needs one. So a blank image is added, and its
    # features are dropped.
    with_blank = torch.nn.functional.pad(pixel_values, (0, 0, 0, 0, 0, 0, 0, 1))
    outputs = self.vision_tower(with_blank, output_hidden_states=True, return_dict=True)
    features = outputs.hidden_states[self.config.vision_feature_layer][:-1, 1:]
    outputs.pooler_output = [self.multi_modal_projector(features).flatten(0, 1)]
    return outputs


def model():
    LlavaModel.get_image_features = image_features
    torch.manual_seed(0)
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
                                       image_size=SIDE, patch_size=PATCH, projection_dim=32).to_dict(),
        text_config=LlamaConfig(vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
                                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                                use_cache=False).to_dict(),
        image_token_index=IMAGE, image_token_id=IMAGE)
    return LlavaForConditionalGeneration(config)


def draw(sizes):
    """Draws rows. The image tokens of all images come first, so the first rows hold them."""
    rows, length, images = sizes["rows"], sizes["length"], sizes["images"]
    ids = torch.randint(1, 250, (rows * length,))
    ids[:TOKENS * images] = IMAGE
    return {"input_ids": ids.view(rows, length), "pixel_values": torch.randn(images, 3, SIDE, SIDE)}


def make():
    example = {"rows": 2, "length": 24, "images": 3}
    return model(), draw(example), {
        "sizes": {"rows": {"input_ids": 0}, "length": {"input_ids": 1}, "images": {"pixel_values": 0}},
        "ranges": {"length": (16, 128), "images": (0, 8)},
        "limits": {"input_ids": 256},
        "draw": draw}
