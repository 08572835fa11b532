#include "data/template/chat_program.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/strict_json.h"
#include "data/template/chat_messages.h"
#include "support/expect_error.h"

namespace sluice::data::jinja {
namespace {

using test::error_of;

Json json(const std::string& text) { return parse_strict_json(text, "test", KeyOrder::kAsWritten); }

std::string rendered(const std::string& text, const std::string& variables = "{}") {
  return ChatProgram(text, "t.jinja").render(json(variables)).text;
}

void expect_refused(const std::string& text, const std::string& what, const std::string& where) {
  const Error error = error_of([&] { ChatProgram program(text, "t.jinja"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
  EXPECT_NE(error.fact().find(what), std::string::npos) << text << "\n" << error.what();
  EXPECT_EQ(error.where(), where) << text;
  EXPECT_FALSE(error.remedy().empty()) << text;
}

void expect_fails(const std::string& text, const std::string& what, const std::string& where) {
  const Error error = error_of([&] { rendered(text); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
  EXPECT_NE(error.fact().find(what), std::string::npos) << text << "\n" << error.what();
  EXPECT_EQ(error.where(), where) << text;
}

// tests/oracle/check_templates.py --record writes this file with transformers.
TEST(ChatProgramTest, RendersAsTransformers) {
  const std::string folder = SLUICE_TEST_DATA;
  std::istringstream rows(read_text(folder + "/reference/templates/rendered.jsonl", 1 << 24));
  int count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const Json row = json(line);
    const std::string file = folder + "/oracle/templates/" + row.at("name").text() + ".jinja";
    Json variables = row.at("variables");
    variables["messages"] = chat_messages(row.at("messages"));
    const Rendered made = ChatProgram(read_text(file, 1 << 20), file).render(variables);
    EXPECT_EQ(made.text, row.at("text").text()) << file;
    const Json::List& spans = row.at("generated").list();
    ASSERT_EQ(made.generated.size(), spans.size()) << file;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      EXPECT_EQ(made.generated[i].first, spans[i].list()[0].unsigned_integer()) << file;
      EXPECT_EQ(made.generated[i].second, spans[i].list()[1].unsigned_integer()) << file;
    }
  }
  EXPECT_EQ(count, 40);
}

TEST(ChatProgramTest, TrimsBlocksAndLines) {
  EXPECT_EQ(rendered("  {% if true %}\n  x\n  {% endif %}\n y\n"), "  x\n y");
  EXPECT_EQ(rendered("a\n  {{- 1 -}}  \n b {%- if true +%}\n c {%+ endif %}"), "a1b\n c ");
  EXPECT_EQ(rendered("{# a #}\nb{#- c -#}  d"), "bd");
}

TEST(ChatProgramTest, GivesThinkingTheNamesThatTemplatesRead) {
  EXPECT_EQ(
      chat_messages(json(R"([{"role": "assistant", "reasoning": "r", "content": "c"}])")).dump(),
      R"([{"thinking":"r","role":"assistant","reasoning":"r","content":"c",)"
      R"("reasoning_content":"r"}])");
}

TEST(ChatProgramTest, NamesWhatIsNotSupportedWhenItReadsTheTemplate) {
  expect_refused("a\n{% include 'x' %}", "the tag 'include'", "t.jinja:2");
  expect_refused("{% if false %}\n\n{{ x | wordcount }}{% endif %}", "the filter 'wordcount'",
                 "t.jinja:3");
  expect_refused("{{ x is lower }}", "the test 'lower'", "t.jinja:1");
  expect_refused("{{ x.format(1) }}", "the method 'format()'", "t.jinja:1");
  expect_refused("{{ lipsum() }}", "the function 'lipsum()'", "t.jinja:1");
  expect_refused("{{ x.__class__ }}", "the attribute '__class__'", "t.jinja:1");
  expect_refused("{% for a in b recursive %}{% endfor %}", "a recursive loop", "t.jinja:1");
  expect_refused("{{ f(**x) }}", "'**' before an argument", "t.jinja:1");
  expect_refused("{{ x | map('shout') }}", "the filter 'shout'", "t.jinja:1");
  expect_refused("{{ x | selectattr('a', 'big') }}", "the test 'big'", "t.jinja:1");
  expect_refused("{% macro f() %}{% generation %}{% endgeneration %}{% endmacro %}",
                 "'generation' in a macro", "t.jinja:1");
  EXPECT_NE(error_of([] { ChatProgram program("{{ x | tojsn }}", "t"); }).remedy().find("'tojson'"),
            std::string::npos);
}

TEST(ChatProgramTest, NamesTheLineOfASyntaxError) {
  expect_refused("\n{% if x %}", "'{% endif %}' is expected", "t.jinja:2");
  expect_refused("\n\n{{ 1 + }}", "an expression is expected instead of '}}'", "t.jinja:3");
  expect_refused("{{ 'a", "a string does not end", "t.jinja:1");
  expect_refused("{{ (1] }}", "']' is not expected", "t.jinja:1");
  expect_refused("{% break %}", "a loop around the tag", "t.jinja:1");
  expect_refused("{{ 1 ? 2 }}", "the character '?'", "t.jinja:1");
  expect_refused("\xFF", "not valid UTF-8", "t.jinja");
}

TEST(ChatProgramTest, EndsWithALineAtItsLimits) {
  expect_fails("\n{% for i in range(10**9) %}{% endfor %}", "steps, 1,000 for each byte",
               "t.jinja:2");
  expect_fails("{% for i in range(500) %}\n{% for j in range(500) %}{% endfor %}{% endfor %}",
               "steps, 1,000 for each byte", "t.jinja:2");
  expect_fails("{% macro f(n) %}\n{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
               "nests its macros more than 64 deep", "t.jinja:2");
  expect_fails("\n\n{{ 'ab' * 10**9 }}", "more than 64 MiB", "t.jinja:3");
  expect_fails(
      "{% set ns = namespace(x='ab') %}{% for i in range(99) %}\n"
      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "steps, 1,000 for each byte", "t.jinja:2");
  expect_fails(
      "{% set ns = namespace(x=[]) %}{% for i in range(99) %}\n{% set ns.x = [ns.x] %}"
      "{% endfor %}",
      "nested more than 64 deep", "t.jinja:2");
  std::string deep = "{{ ";
  for (int i = 0; i < 100; ++i) deep += '(';
  expect_refused(deep + "1" + std::string(100, ')') + " }}", "nested more than 64 deep",
                 "t.jinja:1");
}

TEST(ChatProgramTest, ReportsWhatTheTemplateRaises) {
  expect_fails("a\n{{ raise_exception('roles must ' ~ 'alternate') }}",
               "the chat template refuses the conversation: roles must alternate", "t.jinja:2");
  expect_fails("{{ nothing.at }}", "'nothing' is undefined", "t.jinja:1");
}

}  // namespace
}  // namespace sluice::data::jinja
