#include "data/data_entries.h"

#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "data/data_format.h"
#include "data/data_words.h"
#include "data/field_reader.h"
#include "data/held_out.h"
#include "data/mixture.h"
#include "data/row_shape.h"
#include "data/text_tokens.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

[[noreturn]] void refuse_weights(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`data.weights`", .remedy = remedy});
}

void check_field_options(const TokenDataOptions& options) {
  check_fields(options.fields, options.tokens);
  check_field_names(options.data.fields, options.fields);
  const auto refuse = [](const std::string& option, const std::string& what) {
    throw Error(ErrorKind::kUsage, {.what = what,
                                    .where = "`" + option + "`",
                                    .remedy = "leave `" + option + "` as it is by default"});
  };
  if (options.data.pack && !options.fields.empty())
    refuse("data.pack", "rows with further fields cannot be packed");
  if (options.data.pack && !options.takes_positions)
    refuse("data.pack", "the model takes no position_ids, which separate packed documents");
  if (options.tokens) return;
  if (options.fields.empty()) {
    throw Error(ErrorKind::kUsage, {.what = "rows have neither tokens nor fields",
                                    .where = "TokenDataOptions::fields",
                                    .remedy = "name the fields that rows have"});
  }
  const DataOptions plain;
  const auto refuse_set = [&](const std::string& option) {
    refuse(option, "the option is for tokens, but the model takes none");
  };
  if (options.data.truncate) refuse_set("data.truncate");
  if (options.data.pad != plain.pad) refuse_set("data.pad");
  if (options.data.assistant_only_loss) refuse_set("data.assistant_only_loss");
  if (!options.data.train_on.empty()) refuse_set("data.train_on");
  if (options.data.append_eos) refuse_set("data.append_eos");
  if (options.data.chat_template != plain.chat_template) refuse_set("data.chat_template");
  if (options.data.tokenizer != plain.tokenizer) refuse_set("data.tokenizer");
}

// append_eos needs text, because ids from token files are used unchanged.
void require_texts(const SourceOptions& entry) {
  if (!entry.append_eos || entry.format == DataFormat::kText || entry.format == DataFormat::kJsonl)
    return;
  throw Error(ErrorKind::kUsage,
              {.what = formatted("`data.append_eos` is for texts, and the data is {}",
                                 detail::word_of(detail::words_of(entry.format), entry.format)),
               .where = entry.files.front(),
               .remedy = "set `data.append_eos` = false: token files hold their end tokens"});
}

// Only rows have field names.
void require_rows_for_names(const std::vector<SourceOptions>& entries) {
  if (entries.front().field_names.empty()) return;
  for (const SourceOptions& entry : entries)
    if (entry.format == DataFormat::kJsonl) return;
  throw Error(ErrorKind::kUsage, {.what = "`data.fields` names fields, but the data has no rows",
                                  .where = entries.front().files.front(),
                                  .remedy = "remove `data.fields`, or name files of rows"});
}

void require_rows_of_fields(const SourceOptions& entry) {
  if (entry.format == DataFormat::kJsonl || entry.fields.empty()) return;
  std::vector<std::string> names;
  for (const FieldOption& field : entry.fields) names.push_back(field.name);
  throw Error(ErrorKind::kUsage,
              {.what = formatted("the data is {}, but only rows have the model's inputs {}",
                                 detail::word_of(detail::words_of(entry.format), entry.format),
                                 join(names, ", ")),
               .where = entry.files.front(),
               .remedy = "give .jsonl rows with these fields"});
}

std::shared_ptr<const TextTokens> tokens_of(const TokenDataOptions& options) {
  check_field_options(options);
  if (options.tokens) return std::make_shared<const TextTokens>(options);
  TokenDataOptions none = options;
  none.data.tokenizer = "bytes";
  return std::make_shared<const TextTokens>(none);
}

std::vector<std::int64_t> entries_of(const TokenDataOptions& options) {
  const std::vector<double>& weights = options.data.weights;
  const auto num_files = static_cast<std::int64_t>(options.data.files.size());
  std::vector<std::int64_t> entries = options.files_per_entry;
  if (entries.empty()) {
    if (weights.empty()) return {num_files};
    entries.assign(options.data.files.size(), 1);
  }
  if (!weights.empty() && weights.size() != entries.size()) {
    refuse_weights(formatted("`data.weights` has {} for {} {} of `data.files`",
                             counted(std::ssize(weights), "weight"), entries.size(),
                             entries.size() == 1 ? "entry" : "entries"),
                   "give one for each entry, or none");
  }
  if (weights.size() > Mixture::kMaxEntries) {
    refuse_weights("`data.weights` has " + std::to_string(weights.size()) + " weights",
                   formatted("give at most {}: one entry may be a pattern for many files",
                             Mixture::kMaxEntries));
  }
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      refuse_weights("a weight is " + shortest(weight), "give weights above 0");
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i] < 1) {
      refuse_weights(formatted("entry {} of `data.files` adds no file", i + 1),
                     "its files are in an earlier entry: remove them from one");
    }
    total += entries[i];
  }
  if (total != num_files) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("the entries have {} of {}", total, counted(num_files, "file")),
                 .where = "TokenDataOptions::files_per_entry",
                 .remedy = "let them add up to all of `data.files`"});
  }
  return entries;
}

std::vector<std::unique_ptr<SequenceSource>> open_sources(
    const TokenDataOptions& options, const std::shared_ptr<const TextTokens>& tokens) {
  const DataOptions& data = options.data;
  SourceOptions common;
  common.seq_len = options.seq_len;
  common.vocab_size = options.vocab_size;
  common.num_labels = options.num_labels;
  common.max_positions = options.max_positions;
  common.truncate = data.truncate;
  common.pack = data.pack;
  set_counted_messages(data, common);
  common.field_names = data.fields;
  common.append_eos = data.append_eos;
  common.is_format_set = data.format != DataFormat::kAuto;
  common.chat_template = data.chat_template;
  common.model_family = options.model_family;
  common.fields = options.fields;
  common.has_tokens = options.tokens;
  common.takes_mask = options.takes_mask;
  common.takes_positions = options.takes_positions;
  std::vector<std::string> all;
  for (const std::string& file : data.files) all.push_back(data_file_of(file, data.format));
  std::vector<SourceOptions> entries;
  auto next = all.begin();
  for (const std::int64_t count : entries_of(options)) {
    SourceOptions entry = common;
    entry.files.assign(next, next + count);
    next += count;
    entry.format = common_format(entry.files, data.format);
    if (!entry.is_format_set)
      tokens->note("data.format", detail::word_of(detail::words_of(entry.format), entry.format));
    require_rows_of_fields(entry);
    require_texts(entry);
    entries.push_back(std::move(entry));
  }
  require_rows_for_names(entries);
  std::vector<std::unique_ptr<SequenceSource>> sources;
  for (SourceOptions& entry : entries) {
    entry.tokens = tokens;
    sources.push_back(open_source(std::move(entry)));
  }
  return sources;
}

}  // namespace

DataEntries::DataEntries(const TokenDataOptions& options)
    : tokens_(tokens_of(options)),
      sources_(part_of(open_sources(options, tokens_), options)),
      order_(sizes_of(sources_), options.data.weights, options.data.shuffle, options.seed) {}

std::vector<std::uint64_t> DataEntries::sizes_of(
    const std::vector<std::unique_ptr<SequenceSource>>& sources) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(sources.size());
  for (const auto& source : sources) sizes.push_back(source->num_sequences());
  return sizes;
}

}  // namespace sluice::data
