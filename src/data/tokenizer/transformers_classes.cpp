#include "data/tokenizer/transformers_classes.h"

#include <algorithm>

namespace sluice::data {
namespace {

struct ClassRow {
  std::string_view name;
  ClassKind kind;
  std::string_view model_types;
};

// clang-format off
constexpr ClassRow kClasses[] = {
    {"AlbertTokenizer", ClassKind::kOther, "albert yoso"},
    {"BartTokenizer", ClassKind::kOther, "florence2"},
    {"BarthezTokenizer", ClassKind::kOther, "barthez"},
    {"BartphoTokenizer", ClassKind::kOther, "bartpho"},
    {"BertGenerationTokenizer", ClassKind::kOther, "bert-generation"},
    {"BertJapaneseTokenizer", ClassKind::kOther, "bert-japanese"},
    {"BertTokenizer", ClassKind::kOther,
     "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
     "grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert "
     "realm retribert squeezebert tvp vilt visual_bert"},
    {"BertTokenizerLegacy", ClassKind::kOther, ""},
    {"BertweetTokenizer", ClassKind::kOther, "bertweet"},
    {"BigBirdTokenizer", ClassKind::kOther, "big_bird"},
    {"BioGptTokenizer", ClassKind::kOther, "biogpt"},
    {"BlenderbotSmallTokenizer", ClassKind::kOther, "blenderbot-small"},
    {"BlenderbotTokenizer", ClassKind::kOther, "blenderbot"},
    {"ByT5Tokenizer", ClassKind::kOther, "byt5"},
    {"CLIPTokenizer", ClassKind::kOther, "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"},
    {"CTRLTokenizer", ClassKind::kOther, "ctrl"},
    {"CamembertTokenizer", ClassKind::kOther, "camembert"},
    {"CanineTokenizer", ClassKind::kOther, "canine"},
    {"ClvpTokenizer", ClassKind::kOther, "clvp"},
    {"CodeGenTokenizer", ClassKind::kRebuilt, ""},
    {"CodeLlamaTokenizer", ClassKind::kOther, "code_llama"},
    {"CohereTokenizer", ClassKind::kOther, "aya_vision cohere cohere2"},
    {"ConvBertTokenizer", ClassKind::kAsFile, ""},
    {"CpmAntTokenizer", ClassKind::kOther, "cpmant"},
    {"CpmTokenizer", ClassKind::kOther, "cpm"},
    {"DPRContextEncoderTokenizer", ClassKind::kOther, ""},
    {"DPRQuestionEncoderTokenizer", ClassKind::kOther, "dpr"},
    {"DPRReaderTokenizer", ClassKind::kOther, ""},
    {"DebertaTokenizer", ClassKind::kOther, "deberta"},
    {"DebertaV2Tokenizer", ClassKind::kOther, "deberta-v2"},
    {"DiaTokenizer", ClassKind::kOther, "dia"},
    {"DistilBertTokenizer", ClassKind::kOther, ""},
    {"EsmTokenizer", ClassKind::kOther, "esm"},
    {"EsmcTokenizer", ClassKind::kOther, "esmc esmfold2"},
    {"FNetTokenizer", ClassKind::kAsFile, "fnet"},
    {"FSMTTokenizer", ClassKind::kOther, "fsmt"},
    {"FastSpeech2ConformerTokenizer", ClassKind::kOther, ""},
    {"FlaubertTokenizer", ClassKind::kOther, "flaubert"},
    {"FunnelTokenizer", ClassKind::kOther, "funnel"},
    {"GPT2Tokenizer", ClassKind::kRebuilt,
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
     "instructblipvideo jais2 opt phi starcoder2"},
    {"GPTNeoXJapaneseTokenizer", ClassKind::kOther, "gpt_neox_japanese"},
    {"GPTNeoXTokenizer", ClassKind::kRebuilt, "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {"GPTSw3Tokenizer", ClassKind::kOther, "gpt-sw3"},
    {"GemmaTokenizer", ClassKind::kRebuilt,
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
     "shieldgemma2 t5gemma zaya"},
    {"HerbertTokenizer", ClassKind::kOther, "herbert"},
    {"LEDTokenizer", ClassKind::kOther, "led"},
    {"LasrTokenizer", ClassKind::kOther, "lasr_ctc lasr_encoder"},
    {"LayoutLMv2Tokenizer", ClassKind::kOther, "layoutlmv2"},
    {"LayoutLMv3Tokenizer", ClassKind::kOther, "layoutlmv3"},
    {"LayoutXLMTokenizer", ClassKind::kOther, "layoutxlm"},
    {"LlamaTokenizer", ClassKind::kRebuilt, "idefics idefics2"},
    {"LukeTokenizer", ClassKind::kOther, "luke"},
    {"LxmertTokenizer", ClassKind::kOther, "lxmert"},
    {"M2M100Tokenizer", ClassKind::kOther, "m2m_100"},
    {"MBart50Tokenizer", ClassKind::kOther, "mbart50"},
    {"MBartTokenizer", ClassKind::kOther, "mbart"},
    {"MLukeTokenizer", ClassKind::kOther, "mluke"},
    {"MPNetTokenizer", ClassKind::kOther, "mpnet"},
    {"MarianTokenizer", ClassKind::kOther, "marian"},
    {"MarkupLMTokenizer", ClassKind::kOther, "markuplm"},
    {"MgpstrTokenizer", ClassKind::kOther, "mgp-str"},
    {"MistralCommonBackend", ClassKind::kOther, ""},
    {"MobileBertTokenizer", ClassKind::kOther, "mobilebert"},
    {"MvpTokenizer", ClassKind::kOther, "mvp"},
    {"MyT5Tokenizer", ClassKind::kOther, "myt5"},
    {"NllbTokenizer", ClassKind::kOther, "nllb nllb-moe"},
    {"NougatTokenizer", ClassKind::kOther, "nougat pp_formulanet"},
    {"OpenAIGPTTokenizer", ClassKind::kOther, "openai-gpt"},
    {"PLBartTokenizer", ClassKind::kOther, "plbart"},
    {"ParakeetTokenizer", ClassKind::kAsFile,
     "granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming parakeet_ctc "
     "parakeet_rnnt parakeet_tdt"},
    {"PegasusTokenizer", ClassKind::kOther, "pegasus"},
    {"PerceiverTokenizer", ClassKind::kOther, "perceiver"},
    {"PhobertTokenizer", ClassKind::kOther, "phobert"},
    {"PreTrainedTokenizer", ClassKind::kAsFile, ""},
    {"ProphetNetTokenizer", ClassKind::kOther, "prophetnet"},
    {"PythonBackend", ClassKind::kAsFile, ""},
    {"Qwen2Tokenizer", ClassKind::kRebuilt,
     "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl "
     "lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl "
     "qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe "
     "qwen3_vl qwen3_vl_moe vibevoice"},
    {"Qwen3_5Tokenizer", ClassKind::kOther, "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"},
    {"RagTokenizer", ClassKind::kOther, "rag"},
    {"ReformerTokenizer", ClassKind::kOther, "reformer"},
    {"RemBertTokenizer", ClassKind::kOther, "rembert"},
    {"RoCBertTokenizer", ClassKind::kOther, "roc_bert"},
    {"RoFormerTokenizer", ClassKind::kOther, "roformer"},
    {"RobertaTokenizer", ClassKind::kOther,
     "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta "
     "roberta-prelayernorm"},
    {"SeamlessM4TTokenizer", ClassKind::kOther, "seamless_m4t seamless_m4t_v2"},
    {"SentencePieceBackend", ClassKind::kOther, ""},
    {"Siglip2Tokenizer", ClassKind::kOther, "siglip2"},
    {"SiglipTokenizer", ClassKind::kOther, "siglip"},
    {"Speech2TextTokenizer", ClassKind::kOther, "speech_to_text"},
    {"SpeechT5Tokenizer", ClassKind::kOther, "speecht5"},
    {"SplinterTokenizer", ClassKind::kOther, "splinter"},
    {"SqueezeBertTokenizer", ClassKind::kOther, ""},
    {"T5Tokenizer", ClassKind::kOther, "mt5 musicgen musicgen_melody switch_transformers t5"},
    {"TapasTokenizer", ClassKind::kOther, "tapas"},
    {"Tipsv2Tokenizer", ClassKind::kOther, "tipsv2"},
    {"TokenizersBackend", ClassKind::kAsFile,
     "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm "
     "cohere_asr ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite "
     "glm4v glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite "
     "granitemoe granitemoehybrid granitemoeshared h2ovl_chat hyperclovax hyperclovax_vlm "
     "internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava llava_next "
     "mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 "
     "ministral ministral3 mistral mistral3 mistral_large4 mixtral modernbert "
     "modernbert-decoder molmo molmo2 nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 "
     "olmo_hybrid opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe "
     "pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 vipllava voxtral "
     "voxtral_realtime xlm-roberta-xl"},
    {"UdopTokenizer", ClassKind::kOther, "udop"},
    {"VideoPrismTokenizer", ClassKind::kOther, "videoprism"},
    {"VitsTokenizer", ClassKind::kOther, "vits"},
    {"Wav2Vec2CTCTokenizer", ClassKind::kOther,
     "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert "
     "wav2vec2-conformer"},
    {"Wav2Vec2PhonemeCTCTokenizer", ClassKind::kOther, "wav2vec2_phoneme"},
    {"WhisperTokenizer", ClassKind::kOther, "whisper"},
    {"XGLMTokenizer", ClassKind::kOther, "xglm"},
    {"XLMRobertaTokenizer", ClassKind::kOther, "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    {"XLMTokenizer", ClassKind::kOther, "xlm"},
    {"XLNetTokenizer", ClassKind::kOther, "xlnet"},
};

// Model types whose class overrides the class that a file names.
constexpr std::string_view kForced =
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat "
    "hyperclovax hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder "
    "jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder "
    "molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe qwen2 "
    "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava";
// clang-format on

std::string_view without_fast(std::string_view name) {
  constexpr std::string_view kFast = "Fast";
  return name.ends_with(kFast) ? name.substr(0, name.size() - kFast.size()) : name;
}

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); !word.empty() && at != std::string_view::npos;
       at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

std::string_view registered_class(std::string_view model_type) {
  const auto row = std::find_if(std::begin(kClasses), std::end(kClasses), [&](const ClassRow& of) {
    return has_word(of.model_types, model_type);
  });
  return row == std::end(kClasses) ? "" : row->name;
}

}  // namespace

ClassKind class_kind(std::string_view name) {
  const auto row = std::find_if(std::begin(kClasses), std::end(kClasses),
                                [&](const ClassRow& of) { return of.name == without_fast(name); });
  return row == std::end(kClasses) ? ClassKind::kAsFile : row->kind;
}

ChosenClass choose_class(const ClassChoice& choice) {
  const std::string_view registered = registered_class(choice.model_type);
  const bool is_forced =
      has_word(kForced, choice.model_type) || has_word(kForced, choice.model_name);
  const std::string_view named = without_fast(
      choice.tokenizer_class.empty() ? choice.model_tokenizer_class : choice.tokenizer_class);
  if (named == "LlamaTokenizer" && !is_forced && choice.has_byte_level) return {};
  std::string_view chosen = named.empty() ? registered : named;
  if (!named.empty() && !registered.empty() && registered != named) {
    if (registered == "TokenizersBackend") return {};
    if (is_forced) chosen = registered;
  }
  if (class_kind(chosen) == ClassKind::kAsFile) return {};
  return {std::string(chosen), is_forced && chosen == registered};
}

}  // namespace sluice::data
