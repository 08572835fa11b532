#include "data/data_words.h"

namespace sluice::detail {

const Words<DataFormat>& words_of(DataFormat) {
  static const Words<DataFormat> words = {
      {"auto", DataFormat::kAuto},       {"text", DataFormat::kText},
      {"jsonl", DataFormat::kJsonl},     {"llmc", DataFormat::kLlmc},
      {"nanogpt", DataFormat::kNanogpt}, {"megatron", DataFormat::kMegatron}};
  return words;
}

const Words<Padding>& words_of(Padding) {
  static const Words<Padding> words = {{"seq_len", Padding::kSeqLen},
                                       {"longest", Padding::kLongest}};
  return words;
}

const Words<ChatTemplate>& words_of(ChatTemplate) {
  static const Words<ChatTemplate> words = {{"auto", ChatTemplate::kAuto},
                                            {"chatml", ChatTemplate::kChatml},
                                            {"llama3", ChatTemplate::kLlama3},
                                            {"mistral", ChatTemplate::kMistral},
                                            {"gemma", ChatTemplate::kGemma}};
  return words;
}

}  // namespace sluice::detail
