#include "base/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/format.h"

namespace sluice {
namespace {

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a UTF-8 continuation byte
  }));
}

// Breaks at spaces; a longer word gets its own line. Returns at least one line.
std::vector<std::string> lines_of(std::string_view text, std::size_t first_width,
                                  std::size_t width) {
  std::vector<std::string> lines = {""};
  for (const std::string& word : split(text, ' ')) {
    const std::size_t room = lines.size() == 1 ? first_width : width;
    if (lines.back().empty()) {
      lines.back() = word;
    } else if (display_width(lines.back()) + 1 + display_width(word) <= room) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

bool has_value(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

}  // namespace

bool is_terminal(int file_descriptor) { return isatty(file_descriptor) == 1; }

bool use_color(int file_descriptor) {
  const char* term = std::getenv("TERM");
  return is_terminal(file_descriptor) && !has_value("NO_COLOR") &&
         !(term && std::string_view(term) == "dumb");
}

int terminal_width(int file_descriptor, int otherwise) {
  winsize size{};
  if (!is_terminal(file_descriptor) || ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return otherwise;
  }
  return std::max(40, static_cast<int>(size.ws_col));
}

namespace {

constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

}  // namespace

std::string human_bytes(std::int64_t bytes) {
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? std::to_string(bytes) + "B" : fixed(value, 2) + kUnits[unit];
}

std::string needed_bytes(std::int64_t bytes) {
  std::int64_t factor = 1;
  std::size_t unit = 0;
  while (bytes / factor >= 1024 && unit + 2 < kUnits.size()) {
    factor *= 1024;
    ++unit;
  }
  if (unit == 0) return std::to_string(bytes) + "B";
  // `bytes * 100` could overflow.
  const std::int64_t hundredths =
      bytes / factor * 100 + (bytes % factor * 100 + factor - 1) / factor;
  return formatted("{}.{}{}{}", hundredths / 100, hundredths % 100 / 10, hundredths % 10,
                   kUnits[unit]);
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string counted(std::int64_t count, std::string_view noun) {
  const char* const plural = noun.ends_with("ch") || noun.ends_with("ss") ? "es" : "s";
  return formatted("{} {}{}", count, noun, count == 1 ? "" : plural);
}

std::string fixed(double value, int digits) {
  std::array<char, 400> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

std::string shortest(double value) {
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

std::string shape_text(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

std::string wrapped(std::string_view text, int width, std::string_view indent) {
  const std::size_t columns = static_cast<std::size_t>(std::max(width, 1));
  std::string lines;
  std::string lead(indent);
  const auto room = [&] { return columns > lead.size() ? columns - lead.size() : 1; };
  for (const std::string& line : lines_of(text, room(), room() > 2 ? room() - 2 : 1)) {
    lines += lead + line + "\n";
    lead = std::string(indent) + "  ";
  }
  return lines;
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  return widths;
}

std::string TextTable::to_string(std::string_view indent, int width) const {
  constexpr std::size_t kLeastText = 24;
  const std::vector<std::size_t> widths = this->widths();
  std::string text;
  std::vector<std::size_t> block;
  std::size_t used = indent.size();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool wraps = i + 1 == columns_.size() && columns_[i].align == Align::kLeft;
    const std::size_t needed = 2 + (wraps ? std::min(widths[i], kLeastText) : widths[i]);
    if (width > 0 && block.size() > 1 && used + needed > static_cast<std::size_t>(width)) {
      text += draw(block, widths, indent, width);
      block = {0};
      used = indent.size() + widths[0];
    }
    used += block.empty() ? widths[i] : needed;
    block.push_back(i);
  }
  return text + draw(block, widths, indent, width);
}

std::string TextTable::draw(const std::vector<std::size_t>& block,
                            const std::vector<std::size_t>& widths, std::string_view indent,
                            int width) const {
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& row) {
    std::string line(indent);
    for (const std::size_t i : block) {
      if (i >= row.size()) break;
      if (i != block.front()) line += "  ";
      const std::string padding(widths[i] - display_width(row[i]), ' ');
      if (columns_[i].align == Align::kRight) {
        line += padding + row[i];
      } else if (width > 0 && i + 1 == columns_.size()) {
        const std::size_t at = display_width(line);
        const std::size_t room = static_cast<std::size_t>(width) > at ? width - at : 1;
        line += join(lines_of(row[i], room, room), "\n" + std::string(at, ' '));
      } else {
        line += row[i] + padding;
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool titled = std::any_of(titles.begin(), titles.end(),
                                  [](const std::string& title) { return !title.empty(); });
  if (titled) add_line(titles);
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string shell_word(const std::string& text) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return "'" + replace_all(text, "'", "'\\''") + "'";
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace sluice
