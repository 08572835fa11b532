// A number that depends on the sizes of the batch: whole numbers, symbols and what is made of them.
//
// Owns: the expression, reading it from an archive's text, its value. Does not own: which symbol is
// the size of what (exported_graph.h).
// Thread-safety: values; pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::detail {

// The sizes of one microbatch, by the names of their symbols ("s70").
using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

class SizeExpression {
 public:
  struct Node;  // size_node.h

  SizeExpression() = default;  // 0
  SizeExpression(std::int64_t number) : number_(number) {}
  explicit SizeExpression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  // text: what torch.export writes, sympy's srepr ("Mul(Integer(32), Symbol('s70', integer=True))";
  // also FloorDiv, Mod, PythonMod, Max, Min, Pow, Add, CeilDiv, ModularIndexing, ToFloat, .. as it
  // has them), or the infix form ("32*s70", "s70//2 + 1"). Throws Error(kInput) without a place for
  // what it does not know, for a depth above 64 and for a text of more than 64 KiB.
  static SizeExpression parse(std::string_view text);

  bool is_number() const { return node_ == nullptr; }
  std::int64_t number() const { return number_; }   // precondition: is_number()
  const Node* node() const { return node_.get(); }  // nullptr: is_number()
  // Its symbol, where it is nothing else.
  std::optional<std::string> symbol() const;
  void add_symbols(std::set<std::string>& to) const;

  // Throws Error(kInput) without a place for a symbol that has no value, for a division by 0, for a
  // number beyond 64 bits and for one that is not whole. A condition is 0 or 1.
  std::int64_t at(const SymbolValues& values) const;
  std::string text() const;  // "32*s70", for messages

  friend bool operator==(const SizeExpression&, const SizeExpression&);

 private:
  std::shared_ptr<const Node> node_;
  std::int64_t number_ = 0;
};

// A rule that the sizes of the batch have to keep: comparisons of expressions, joined by `and`,
// `or`, `not`.
class SizeRule {
 public:
  // text: Python, as an archive's guards_code has it ("L['pixel_values'].size()[0] == 3",
  // "(s70 % 8) == 0 or s70 <= 2"). `L['NAME'].size()[I]` is the symbol "NAME.I". Throws
  // Error(kInput) without a place for what it does not know.
  static SizeRule parse(std::string_view text);
  // values: also of the symbols "NAME.I" that it names. As SizeExpression::at().
  bool holds(const SymbolValues& values) const;
  const std::string& text() const { return text_; }  // as it was read
  const std::set<std::string>& symbols() const { return symbols_; }

 private:
  SizeExpression condition_;
  std::string text_;
  std::set<std::string> symbols_;
};

}  // namespace sluice::detail
