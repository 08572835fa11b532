#include "data/tokenizer/post_processor.h"

#include <string>

namespace sluice::data {
namespace {

class Reader {
 public:
  void read(const JsonField& field) {
    const std::string type = field.type();
    if (type == "Sequence") {
      for (const JsonField& part : field["processors"].items()) read(part);
    } else if (type == "TemplateProcessing") {
      require_first(field);
      read_template(field);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      require_first(field);
      made.before.push_back(pair_id(field["cls"]));
      made.after.push_back(pair_id(field["sep"]));
    } else if (type != "ByteLevel") {  // ByteLevel changes no ids
      field.refuse("the post-processor '" + type + "'");
    }
  }

  PostProcessor made;

 private:
  // A second template would receive the text in several pieces.
  void require_first(const JsonField& field) {
    if (has_tokens_) field.refuse("a second post-processor that adds tokens");
    has_tokens_ = true;
  }

  static std::int32_t pair_id(const JsonField& field) {
    const std::vector<JsonField> pair = field.items();
    if (pair.size() != 2) field.malformed("a token and its id");
    return pair[1].token_id();
  }

  void read_template(const JsonField& field) {
    const JsonField tokens = field["special_tokens"];
    bool text_seen = false;
    for (const JsonField& piece : field["single"].items()) {
      const JsonField sequence = piece["Sequence"], special = piece["SpecialToken"];
      if (sequence.is_null() == special.is_null()) piece.malformed("a Sequence or a SpecialToken");
      if (!sequence.is_null()) {
        if (sequence["id"].text() != "A")
          sequence["id"].refuse("the second text of a pair in the template for one");
        if (text_seen) sequence.refuse("a template with the text twice");
        text_seen = true;
        continue;
      }
      for (const JsonField& id : tokens[special["id"].text()]["ids"].items()) {
        (text_seen ? made.after : made.before).push_back(id.token_id());
      }
    }
    if (!text_seen) field.refuse("a template without the text");
  }

  bool has_tokens_ = false;
};

}  // namespace

PostProcessor PostProcessor::read(const JsonField& field) {
  Reader reader;
  if (!field.is_null()) reader.read(field);
  return reader.made;
}

}  // namespace sluice::data
