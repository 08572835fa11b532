#include "sluice/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/format.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/post_processor.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/tokenizer_directory.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "data/tokenizer/utf8.h"
#include "sluice/error.h"

namespace sluice {

using data::EncodeScratch;
using data::JsonField;
using data::TextPiece;

namespace {

// Encoding uses 32-bit offsets.
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(const data::TokenizerParts& parts)
      : Impl(parts, JsonField(parts.document, parts.file, "")) {}
  Impl(const data::TokenizerParts& parts, const JsonField& root)
      : where(root.where()),
        begin_token(parts.begin),
        end_token(parts.end),
        model(root["model"]),
        normalizer(root["normalizer"]),
        added(parts.added, model, normalizer),
        pre_tokenizer(root["pre_tokenizer"]),
        post_processor(data::PostProcessor::read(root["post_processor"])),
        decoder(root["decoder"]) {
    num_ids = static_cast<std::int64_t>(model.tokens().size());
    for (const auto& [id, token] : added.by_id()) num_ids = std::max<std::int64_t>(num_ids, id + 1);
    for (const std::vector<std::int32_t>* ids : {&post_processor.before, &post_processor.after}) {
      for (const std::int32_t id : *ids) {
        if (!model.has(id) && !added.by_id().contains(id)) {
          root["post_processor"].refuse(formatted("the id {}, which is not a token's,", id));
        }
      }
    }
  }

  std::unique_ptr<EncodeScratch> take_scratch() const {
    {
      const std::lock_guard lock(mutex);
      if (!scratches.empty()) {
        std::unique_ptr<EncodeScratch> last = std::move(scratches.back());
        scratches.pop_back();
        return last;
      }
    }
    return std::make_unique<EncodeScratch>();
  }
  void give_back(std::unique_ptr<EncodeScratch> scratch) const {
    const std::lock_guard lock(mutex);
    scratches.push_back(std::move(scratch));
  }

  void encode(std::string_view text, bool goes_on, std::vector<std::int32_t>& ids) const;
  void encode_valid(std::string_view text, EncodeScratch& scratch,
                    std::vector<std::int32_t>& ids) const;

  std::string where, begin_token, end_token;
  data::Bpe model;
  data::Normalizer normalizer;
  data::AddedTokens added;
  data::PreTokenizer pre_tokenizer;
  data::PostProcessor post_processor;
  data::Decoder decoder;
  std::int64_t num_ids = 0;

  // One per concurrent encoder, each with a word cache.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<EncodeScratch>> scratches;
};

void Tokenizer::Impl::encode_valid(std::string_view text, EncodeScratch& scratch,
                                   std::vector<std::int32_t>& ids) const {
  auto token = [&](std::int32_t id) { ids.push_back(id); };
  auto word = [&](TextPiece piece) {
    if (pre_tokenizer.gives_bytes()) {
      model.encode_bytes(piece.text, scratch.bpe, ids);
    } else {
      model.encode(piece.text, scratch.bpe, ids);
    }
  };
  auto normalized = [&](TextPiece piece) { pre_tokenizer.split(piece, scratch, word); };
  auto between = [&](TextPiece piece) {
    if (normalizer.is_identity()) {
      added.cut_normalized(piece, normalized, token);
      return;
    }
    scratch.normalized.text = piece.text;
    scratch.normalized.at_start = piece.at_start;
    normalizer.apply(scratch.normalized, scratch);
    added.cut_normalized(scratch.normalized.view(), normalized, token);
  };
  if (text.empty()) return;
  added.cut_text({text, data::utf8_length(text.front())}, between, token);
}

void Tokenizer::Impl::encode(std::string_view text, bool goes_on,
                             std::vector<std::int32_t>& ids) const {
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("the text has {} bytes", text.size()),
                 .where = where,
                 .remedy = formatted("give texts of at most {} bytes", kMaxTextBytes)});
  }
  std::unique_ptr<EncodeScratch> scratch = take_scratch();
  scratch->goes_on = goes_on;
  scratch->pattern.allow(text.size());
  std::string repaired;
  if (data::valid_utf8_prefix(text) != text.size()) {
    data::append_repaired(repaired, text);
    text = repaired;
  }
  encode_valid(text, *scratch, ids);
  give_back(std::move(scratch));
}

Tokenizer Tokenizer::read(const std::string& path) {
  const std::string file = data::tokenizer_at(path, "");
  return Tokenizer(
      std::make_shared<const Impl>(data::parts_of_directory(data::read_tokenizer_texts(file))));
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& file_name) {
  return Tokenizer(std::make_shared<const Impl>(data::parts_of_file(json, file_name)));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<std::int32_t> ids;
  if (add_special_tokens) ids = prefix();
  impl_->encode(text, false, ids);
  if (add_special_tokens) ids.insert(ids.end(), suffix().begin(), suffix().end());
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_continuation(std::string_view text) const {
  std::vector<std::int32_t> ids;
  impl_->encode(text, true, ids);
  return ids;
}

const std::vector<std::int32_t>& Tokenizer::prefix() const { return impl_->post_processor.before; }
const std::vector<std::int32_t>& Tokenizer::suffix() const { return impl_->post_processor.after; }

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids) {
    const auto it = impl_->added.by_id().find(id);
    if (it == impl_->added.by_id().end() && !impl_->model.has(id)) {
      throw Error(ErrorKind::kInput,
                  {.what = "no token has the id " + std::to_string(id),
                   .where = impl_->where,
                   .remedy = "decode with the tokenizer that made the ids; its largest is " +
                             std::to_string(num_ids() - 1)});
    }
    const std::string& token = it != impl_->added.by_id().end()
                                   ? it->second.pattern
                                   : impl_->model.tokens()[static_cast<std::size_t>(id)];
    if (!skip_special_tokens || !impl_->added.is_special(token)) tokens.push_back(token);
  }
  return impl_->decoder.decode(std::move(tokens));
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  std::int32_t id = impl_->added.id_of(std::string(token));
  if (id < 0) id = impl_->model.id_of(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string Tokenizer::token_of(std::int32_t id) const {
  const auto it = impl_->added.by_id().find(id);
  if (it != impl_->added.by_id().end()) return it->second.content;
  return impl_->model.has(id) ? impl_->model.tokens()[static_cast<std::size_t>(id)] : std::string();
}

bool Tokenizer::is_special(std::int32_t id) const {
  const auto it = impl_->added.by_id().find(id);
  return it != impl_->added.by_id().end() && it->second.special;
}

std::int64_t Tokenizer::num_ids() const { return impl_->num_ids; }

const std::string& Tokenizer::begin_token() const { return impl_->begin_token; }
const std::string& Tokenizer::end_token() const { return impl_->end_token; }

}  // namespace sluice
