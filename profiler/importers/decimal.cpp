#include "profiler/importers/decimal.h"

#include <charconv>
#include <limits>

namespace ferry::profiler::importers {
namespace {

template <class Integer>
std::optional<Integer> parsed(std::string_view text, int base) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Digits with a point among them: value = digits × 10^exponent.
struct Decimal {
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool valid = false;
};

Decimal read_digits(std::string_view& text) {
  constexpr std::uint64_t kRoom = (std::numeric_limits<std::uint64_t>::max() - 9) / 10;
  Decimal number;
  bool point = false;
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    number.valid = true;
    if (number.digits <= kRoom) {
      number.digits = number.digits * 10 + static_cast<std::uint64_t>(c - '0');
      number.exponent -= point;
    } else {
      number.exponent += !point;  // a digit that no unit of this trace shows
    }
  }
  text.remove_prefix(i);
  return number;
}

}  // namespace

std::optional<std::int64_t> scaled(std::string_view text, int shift) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  Decimal number = read_digits(text);
  if (!number.valid) return std::nullopt;
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '+') text.remove_prefix(1);
    const auto exponent = parsed<std::int32_t>(text, 10);
    if (!exponent) return std::nullopt;
    number.exponent += *exponent;
    text = {};
  }
  if (!text.empty()) return std::nullopt;
  std::int64_t exponent = number.exponent + shift;
  std::uint64_t value = number.digits;
  for (; exponent > 0 && value > 0; --exponent) {
    if (value > std::numeric_limits<std::uint64_t>::max() / 10) return std::nullopt;
    value *= 10;
  }
  // Only the last division rounds: earlier digits would be rounded twice.
  for (; exponent < -1 && value > 0; ++exponent) value /= 10;
  if (exponent == -1) value = (value + 5) / 10;
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> integer(std::string_view text) { return parsed<std::int64_t>(text, 10); }

std::optional<std::uint64_t> unsigned_integer(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return parsed<std::uint64_t>(text.substr(2), 16);
  return parsed<std::uint64_t>(text, 10);
}

}  // namespace ferry::profiler::importers
