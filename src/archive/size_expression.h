// A number that depends on batch sizes.
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

using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

class SizeExpression {
 public:
  struct Node;  // in size_node.h

  SizeExpression() = default;
  SizeExpression(std::int64_t number) : number_(number) {}
  explicit SizeExpression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  // Parses infix ("s70//2 + 1"), or sympy's srepr as torch.export writes it: "Mul(Integer(32),
  // Symbol('s70', integer=True))". Throws Error(kInput), without a file, if the text is invalid,
  // deeper than 64 or longer than 64 KiB.
  static SizeExpression parse(std::string_view text);

  bool is_number() const { return node_ == nullptr; }
  std::int64_t number() const { return number_; }  // if is_number()
  const Node* node() const { return node_.get(); }
  // Returns the symbol if the expression is a single one.
  std::optional<std::string> symbol() const;
  void add_symbols(std::set<std::string>& to) const;

  // A condition gives 0 or 1. Throws Error(kInput), without a file, for a missing symbol, a
  // division by 0, and a result that is no 64-bit integer.
  std::int64_t at(const SymbolValues& values) const;
  std::string text() const;

  friend bool operator==(const SizeExpression&, const SizeExpression&);

 private:
  std::shared_ptr<const Node> node_;
  std::int64_t number_ = 0;
};

// A condition on batch sizes.
class SizeRule {
 public:
  // Parses Python from the archive's guards_code: "L['pixel_values'].size()[0] == 3" or "(s70 % 8)
  // == 0 or s70 <= 2". `L['NAME'].size()[I]` becomes the symbol "NAME.I". Throws the errors of
  // SizeExpression::parse().
  static SizeRule parse(std::string_view text);
  // `values` must include the symbols "NAME.I". Throws the errors of SizeExpression::at().
  bool holds(const SymbolValues& values) const;
  const std::string& text() const { return text_; }
  const std::set<std::string>& symbols() const { return symbols_; }

 private:
  SizeExpression condition_;
  std::string text_;
  std::set<std::string> symbols_;
};

}  // namespace sluice::detail
