#include "data/inspect.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "data/counted_labels.h"
#include "data/data_format.h"
#include "data/file_content.h"
#include "data/jsonl_rows.h"
#include "data/row_fields.h"
#include "data/row_shape.h"
#include "data/row_tokens.h"
#include "data/token_file.h"
#include "data/token_stream.h"
#include "data/tokenizer/tokenizer_directory.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kShownTokens = 128, kShownBytes = 160, kTokensAtOnce = std::size_t{1} << 16;
constexpr std::size_t kMaxFields = 64;  // fields beyond this number are counted as "..."

class Inspection {
 public:
  Inspection(const std::string& path, const InspectOptions& options) : options_(options) {
    found_.format = format_of(path, options.format, "FILE");
    found_.path = data_file_of(path, options.format);
    source_.files = {found_.path};
    source_.format = found_.format;
    source_.seq_len = std::numeric_limits<std::int64_t>::max();
    source_.vocab_size = std::numeric_limits<std::int32_t>::max();
    source_.chat_template = options.chat_template;
    source_.append_eos = options.append_eos;
    DataOptions counted;
    counted.assistant_only_loss = options.assistant_only_loss;
    counted.train_on = options.train_on;
    set_counted_messages(counted, source_);
    check_field_names(options.fields, {});
    source_.field_names = options.fields;
    TokenDataOptions tokens;
    tokens.data.tokenizer = has_tokenizer() ? options.tokenizer : "bytes";
    tokens.vocab_size = source_.vocab_size;
    source_.tokens = std::make_shared<const TextTokens>(tokens);
    source_.model_family = model_type_beside(source_.tokens->file());
    const bool is_set = options.format != DataFormat::kAuto;
    require_content(found_.path, found_.format, is_set, "FILE");
    if (found_.format == DataFormat::kText) require_text(found_.path);
  }

  FileContents take() {
    if (found_.format == DataFormat::kJsonl) {
      read_rows();
    } else if (found_.format == DataFormat::kText) {
      read_text();
    } else {
      read_ids();
    }
    found_.warnings = source_.tokens->warnings();
    return std::move(found_);
  }

 private:
  bool has_tokenizer() const { return !options_.tokenizer.empty(); }
  bool is_shown(std::uint64_t row) const {
    return row < static_cast<std::uint64_t>(options_.first_rows);
  }

  void count(const std::int32_t* ids, std::size_t size) {
    found_.tokens = found_.tokens.value_or(0) + size;
    for (std::size_t i = 0; i < size; ++i)
      found_.largest_id = std::max(found_.largest_id.value_or(0), ids[i]);
  }

  void show(std::string source, std::vector<std::int32_t> ids,
            const std::vector<std::int32_t>& labels = {}) {
    FirstRow row;
    row.source = std::move(source);
    row.ids = std::move(ids);
    if (row.ids.size() > kShownTokens) row.ids.resize(kShownTokens);
    for (std::size_t i = 0; i < std::min(row.ids.size(), labels.size()); ++i)
      row.counted.push_back(i > 0 && labels[i] != kIgnoredLabel);
    if (has_tokenizer()) {
      row.decoded = decoded(row.ids);
      row.marked = marked(row.ids, row.counted);
    }
    found_.first.push_back(std::move(row));
  }

  std::string marked(const std::vector<std::int32_t>& ids, const std::vector<bool>& counted) const {
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < counted.size(); begin = end) {
      while (end < counted.size() && counted[end] == counted[begin]) ++end;
      const auto from = ids.begin() + static_cast<std::ptrdiff_t>(begin);
      const std::string part = decoded({from, from + static_cast<std::ptrdiff_t>(end - begin)});
      text += counted[begin] ? "[" + part + "]" : part;
    }
    return text;
  }

  std::string decoded(const std::vector<std::int32_t>& ids) const {
    if (!source_.tokens->is_bytes()) {
      const std::int64_t num_ids = source_.tokens->tokenizer().num_ids();
      const bool knows_all =
          std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) { return id < num_ids; });
      return knows_all ? source_.tokens->tokenizer().decode(ids) : "";
    }
    std::string text;
    for (const std::int32_t id : ids) text += id < 256 ? static_cast<char>(id) : '?';
    return text;
  }

  void read_stream(const TokenStream& stream) {
    std::vector<std::int32_t> ids(kTokensAtOnce);
    for (std::uint64_t first = 0; first < stream.num_tokens();) {
      const std::size_t size = std::min<std::uint64_t>(ids.size(), stream.num_tokens() - first);
      stream.read(first, size, ids.data());
      count(ids.data(), size);
      first += size;
    }
    found_.tokens = stream.num_tokens();
    found_.counted = found_.tokens;
  }

  void read_text() {
    const File file = File::open(found_.path);
    found_.bytes = file.size();
    found_.documents = found_.bytes > 0 ? 1 : 0;
    std::string begin(kShownBytes, '\0');
    begin.resize(file.read_some(begin.data(), begin.size(), 0));
    std::vector<std::int32_t> ids;
    if (has_tokenizer()) {
      const auto stream =
          source_.tokens->is_bytes() ? open_bytes(source_) : open_text_tokens(source_);
      read_stream(*stream);
      ids.resize(std::min<std::uint64_t>(kShownTokens, stream->num_tokens()));
      if (!ids.empty()) stream->read(0, ids.size(), ids.data());
    }
    if (is_shown(0) && found_.documents > 0) show(std::move(begin), std::move(ids));
  }

  void read_ids() {
    const std::unique_ptr<TokenFile> file = open_token_file(found_.path, found_.format);
    found_.bytes = file->num_bytes();
    found_.documents = file->num_documents();
    found_.id_type = file->id_type();
    const std::unique_ptr<TokenStream> stream = open_token_files(source_);
    read_stream(*stream);
    std::uint64_t from = 0;
    for (std::uint64_t row = 0; is_shown(row) && from < file->num_tokens(); ++row) {
      const std::uint64_t left = file->num_tokens() - from;
      const std::vector<std::uint64_t> next = file->document_starts(
          from + 1, static_cast<std::size_t>(std::min<std::uint64_t>(left, kShownTokens)));
      const std::uint64_t end =
          next.empty() ? from + std::min<std::uint64_t>(left, kShownTokens) : next.front();
      std::vector<std::int32_t> ids(static_cast<std::size_t>(end - from));
      file->read(from, ids.size(), source_.vocab_size, ids.data());
      show("", std::move(ids));
      if (next.empty()) break;  // do not search for the end of a long document
      from = end;
    }
  }

  void count_field(const std::string& field) {
    const bool is_new = found_.fields.count(field) == 0;
    ++found_.fields[is_new && found_.fields.size() >= kMaxFields ? "..." : field];
  }

  // Counts numeric fields. Returns false if the first row has token fields or no number.
  bool read_numbers(const JsonlRows& rows) {
    bool has_numbers = false;
    rows.for_each_text([&](std::uint64_t index, const std::string& json) {
      parse_jsonl_row(json, "", {.tokens = false, .fields = {}});
      const Json row = parse_strict_json(json, "");
      if (index == 0) {
        std::vector<std::string> names;
        for (const std::string& name :
             parse_jsonl_row(json, "", {.tokens = false, .names = &source_.field_names}).fields)
          names.push_back(name);
        if (names_a_shape(names)) return false;
        if (!foreign_format_refusal(names).what.empty()) return false;
      }
      for (const auto& [name, value] : row.members())
        if (has_number(value)) has_numbers = true;
      if (!has_numbers) return false;
      for (const auto& [name, value] : row.members()) {
        count_field(name);
        const bool is_new = found_.numbers.count(name) == 0;
        if (has_number(value) && (!is_new || found_.numbers.size() < kMaxFields))
          add_numbers(name, value, found_.numbers[name]);
      }
      if (is_shown(index)) {
        FirstRow shown;
        shown.source = json.substr(0, kShownBytes);
        found_.first.push_back(std::move(shown));
      }
      return true;
    });
    return has_numbers;
  }

  static bool has_number(const Json& value) {
    const Json* inner = &value;
    while (inner->is_array() && !inner->empty()) inner = &inner->list().front();
    return inner->is_number() || inner->is_boolean() || inner->is_array();
  }

  void add_numbers(const std::string& name, const Json& value, NumberField& field) {
    std::vector<std::int64_t> sizes;
    for (const Json* inner = &value; inner->is_array(); inner = &inner->list().front()) {
      sizes.push_back(static_cast<std::int64_t>(inner->size()));
      if (inner->empty()) break;
    }
    if (field.rows == 0) {
      field.least = std::numeric_limits<double>::infinity();
      field.greatest = -field.least;
      for (const std::int64_t size : sizes) field.sizes.emplace_back(size, size);
    }
    if (sizes.size() != field.sizes.size()) {
      throw Error(ErrorKind::kInput,
                  {.what = formatted("'{}' has {} dimensions, but {} in earlier rows", name,
                                     sizes.size(), field.sizes.size()),
                   .remedy = "give the field as many in every row"});
    }
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      field.sizes[d].first = std::min(field.sizes[d].first, sizes[d]);
      field.sizes[d].second = std::max(field.sizes[d].second, sizes[d]);
    }
    ++field.rows;
    add_elements(name, value, sizes, 0, field);
  }

  static void add_elements(const std::string& name, const Json& value,
                           const std::vector<std::int64_t>& sizes, std::size_t depth,
                           NumberField& field) {
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorKind::kInput, {.what = "'" + name + "' has " + what,
                                      .remedy = "give numbers, in lists of one length"});
    };
    if (depth == sizes.size()) {
      if (!value.is_number() && !value.is_boolean()) refuse("a value that is not a number");
      const double number = value.is_boolean() ? value.boolean() : value.number();
      field.integers &= value.is_boolean() || value.is_number_integer();
      field.least = std::min(field.least, number);
      field.greatest = std::max(field.greatest, number);
      return;
    }
    if (!value.is_array() || static_cast<std::int64_t>(value.size()) != sizes[depth])
      refuse("lists of several lengths in one row");
    for (const Json& each : value.list()) add_elements(name, each, sizes, depth + 1, field);
  }

  void read_rows() {
    const JsonlRows rows(source_.files, true, {}, source_.field_names);
    found_.bytes = rows.num_bytes();
    found_.documents = rows.size();
    if (read_numbers(rows)) return;
    found_.shape = join(rows.shapes(), ", ");
    const RowTokens tokens(source_);
    bool all_known = true;
    rows.for_each(0, [&](std::uint64_t index, JsonlRow row, std::uint64_t /*json_bytes*/) {
      for (const std::string& field : row.fields) count_field(field);
      std::string source = is_shown(index) ? text_of(row) : "";
      std::vector<std::int32_t> ids, labels;
      if (has_tokenizer() || row.input_ids) {
        const Sequence sequence = tokens.sequence(std::move(row));
        count(sequence.ids.data(), sequence.ids.size());
        found_.longest = std::max<std::uint64_t>(found_.longest.value_or(0), sequence.ids.size());
        found_.counted = found_.counted.value_or(0) +
                         static_cast<std::uint64_t>(
                             count_labels(std::span<const std::int32_t>(sequence.labels)));
        ids = sequence.ids;
        labels = sequence.labels;
      } else {
        all_known = false;
        tokens.require_sound_turns(row);
      }
      if (is_shown(index)) show(std::move(source), std::move(ids), labels);
      return true;
    });
    tokens.warn_of_unread();
    if (!all_known) found_.tokens = found_.counted = found_.longest = std::nullopt;
    if (found_.counted == 0u) refuse_uncounted_file(found_.path);
  }

  static std::string text_of(const JsonlRow& row) {
    const auto text_in = [](const Speech& speech) {
      if (speech.text) return *speech.text;
      std::string text;
      for (const Message& message : speech.messages.value_or(std::vector<Message>()))
        text += message.role + ": " + message.content + "\n";
      return text;
    };
    std::string text;
    if (row.input_ids) return text;
    if (row.text) {
      text = *row.text;
    } else if (row.messages) {
      text = text_in(*row.messages);
    } else if (row.prompt && row.completion) {
      text = text_in(*row.prompt) + " -> " + text_in(*row.completion);
    }
    if (text.size() > kShownBytes) text.resize(kShownBytes);
    return text;
  }

  const InspectOptions options_;
  SourceOptions source_;
  FileContents found_;
};

}  // namespace

FileContents inspect_file(const std::string& path, const InspectOptions& options) {
  return Inspection(path, options).take();
}

}  // namespace sluice::data
