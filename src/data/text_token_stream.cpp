// Tokenizes text files in pieces of about 8 KiB (text_cut.h). One pass at startup counts the tokens
// of every piece. Memory is 16 bytes per piece plus a cache of recent pieces.
#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "data/text_cut.h"
#include "data/token_stream.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{8} << 10;
// Pieces of this size are cut between any characters.
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kWindow = std::size_t{1} << 10;
constexpr std::size_t kKeptPieces = 64;

using Ids = std::vector<std::int32_t>;

std::string read_piece(const File& file, std::uint64_t offset) {
  std::string text;
  for (std::size_t wanted = kPieceBytes + kWindow;;
       wanted = std::min(2 * wanted, kMaxPieceBytes + kWindow)) {
    const std::size_t before = text.size();
    text.resize(wanted);
    text.resize(before + file.read_some(text.data() + before, wanted - before, offset + before));
    const bool is_end = text.size() < wanted;
    std::size_t cut = find_cut(text, std::max(kPieceBytes, before));
    if (cut == std::string::npos) {
      if (is_end && text.size() <= kMaxPieceBytes) return text;
      if (text.size() <= kMaxPieceBytes) continue;
      cut = character_cut(text, kMaxPieceBytes);
    }
    text.resize(cut);
    return text;
  }
}

class Kept {
 public:
  std::shared_ptr<const Ids> find(std::size_t piece) const {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first != piece) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->second;
    }
    return nullptr;
  }
  void keep(std::size_t piece, std::shared_ptr<const Ids> ids) const {
    const std::lock_guard lock(mutex_);
    entries_.emplace_front(piece, std::move(ids));
    if (entries_.size() > kKeptPieces) entries_.pop_back();
  }

 private:
  mutable std::mutex mutex_;
  // most recently used first
  mutable std::list<std::pair<std::size_t, std::shared_ptr<const Ids>>> entries_;
};

class TextTokenStream final : public TokenStream {
 public:
  explicit TextTokenStream(const SourceOptions& options)
      : paths_(options.files),
        tokens_(options.tokens),
        vocab_size_(options.vocab_size),
        append_eos_(options.append_eos) {
    tokens_->require_fit();
    for (const std::string& path : paths_) {
      const File file = File::open(path);
      const std::uint64_t size = file.size();
      files_.add(size);
      std::uint64_t tokens = 0;
      for (std::uint64_t offset = 0; offset < size;) {
        const std::string text = read_piece(file, offset);
        if (text.empty()) break;
        const std::uint64_t end = offset + text.size();
        const std::size_t count = encode(path, text, offset, end >= size).size();
        pieces_.push_back(files_.first(files_.size() - 1) + offset);
        piece_tokens_.add(count);
        tokens += count;
        offset = end;
      }
      documents_.add(tokens);
    }
  }

  std::uint64_t num_tokens() const override { return piece_tokens_.total(); }
  std::uint64_t num_bytes() const override { return files_.total(); }

  void read(std::uint64_t first, std::size_t count, std::int32_t* ids) const override {
    for (std::size_t done = 0; done < count;) {
      const std::size_t piece = piece_tokens_.holder(first + done);
      const std::shared_ptr<const Ids> all = tokens_of(piece);
      const auto from = static_cast<std::ptrdiff_t>(first + done - piece_tokens_.first(piece));
      const std::size_t here =
          std::min<std::uint64_t>(count - done, piece_tokens_.end(piece) - (first + done));
      std::copy_n(all->begin() + from, here, ids + done);
      done += here;
    }
  }

  std::vector<std::uint64_t> document_starts(std::uint64_t first,
                                             std::size_t count) const override {
    return documents_.starts_in(first, count);
  }

  std::string place(std::uint64_t token) const override {
    const std::uint64_t position = pieces_[piece_tokens_.holder(token)];
    const std::size_t file = files_.holder(position);
    return formatted("{}, near byte {}", paths_[file], position - files_.first(file));
  }

 private:
  std::shared_ptr<const Ids> tokens_of(std::size_t piece) const {
    if (auto kept = kept_.find(piece)) return kept;
    const std::size_t index = files_.holder(pieces_[piece]);
    const std::uint64_t begin = files_.first(index), end = files_.end(index);
    const bool is_last = piece + 1 == pieces_.size() || pieces_[piece + 1] >= end;
    const std::uint64_t next = is_last ? end : pieces_[piece + 1];
    std::string text(static_cast<std::size_t>(next - pieces_[piece]), '\0');
    const std::uint64_t offset = pieces_[piece] - begin;
    File::open(paths_[index]).read(text.data(), text.size(), offset);
    auto ids = std::make_shared<const Ids>(encode(paths_[index], text, offset, is_last));
    if (ids->size() != piece_tokens_.end(piece) - piece_tokens_.first(piece)) {
      throw Error(ErrorKind::kInput, {.what = "the file changed since it was opened",
                                      .where = paths_[index],
                                      .remedy = "leave files alone while they are used"});
    }
    kept_.keep(piece, ids);
    return ids;
  }

  Ids encode(const std::string& path, const std::string& text, std::uint64_t offset,
             bool is_last) const {
    const Tokenizer& tokenizer = tokens_->tokenizer();
    Ids ids;
    if (offset == 0) {
      ids = tokenizer.prefix();
      const Ids first = tokenizer.encode(text, false);
      ids.insert(ids.end(), first.begin(), first.end());
    } else {
      ids = tokenizer.encode_continuation(text);
    }
    if (is_last) {
      ids.insert(ids.end(), tokenizer.suffix().begin(), tokenizer.suffix().end());
      tokens_->end_text(ids, append_eos_);
    }
    const auto outside =
        std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= vocab_size_; });
    if (outside == ids.end()) return ids;
    throw Error(ErrorKind::kInput,
                {.what = formatted("the token '{}', id {}, is outside of the vocabulary of {}",
                                   tokenizer.token_of(*outside), *outside, vocab_size_),
                 .where = formatted("{}, near byte {}", path, offset),
                 .remedy = "take it out of the text"});
  }

  std::vector<std::string> paths_;
  std::shared_ptr<const TextTokens> tokens_;
  std::int64_t vocab_size_;
  bool append_eos_;
  Starts files_;                       // byte offset of each file
  std::vector<std::uint64_t> pieces_;  // byte offset of each piece
  Starts piece_tokens_;                // token offset of each piece
  Starts documents_;                   // token offset of each file
  Kept kept_;
};

}  // namespace

std::unique_ptr<TokenStream> open_text_tokens(const SourceOptions& options) {
  return std::make_unique<TextTokenStream>(options);
}

}  // namespace sluice::data
