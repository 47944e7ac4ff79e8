#include <ferry/units.h>

#include <array>
#include <charconv>
#include <cmath>

#include "src/base/check.h"

namespace ferry {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr std::array kSuffixes = {
    Suffix{"", 1},         Suffix{"B", 1},        Suffix{"kB", 1e3},     Suffix{"KB", 1e3},
    Suffix{"MB", 1e6},     Suffix{"GB", 1e9},     Suffix{"TB", 1e12},    Suffix{"KiB", 0x1p10},
    Suffix{"MiB", 0x1p20}, Suffix{"GiB", 0x1p30}, Suffix{"TiB", 0x1p40},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  const std::string_view clean = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(clean.data(), clean.data() + clean.size(), value);
  const std::string_view suffix = trimmed(clean.substr(static_cast<std::size_t>(end - clean.data())));
  for (const Suffix& known : kSuffixes) {
    if (error != std::errc{} || suffix != known.text) continue;
    const double bytes = value * known.factor;
    FERRY_CHECK(bytes >= 0 && bytes < 0x1p63, InvalidArgument, "'{}' bytes are out of range (0 to 8 EiB)", text);
    return Bytes{static_cast<std::int64_t>(std::llround(bytes))};
  }
  throw InvalidArgument(
      fmt::format("'{}' is not a number of bytes; write for example 4096, 512MiB, 5GiB or 12GB", text));
}

std::string to_string(Bytes bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (-1024 < bytes.count && bytes.count < 1024) return fmt::format("{} B", bytes.count);
  double value = static_cast<double>(bytes.count) / 1024;
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string to_string(Nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (std::abs(ns) < 1e3) return fmt::format("{} ns", time.count());
  if (std::abs(ns) < 1e6) return fmt::format("{:.3f} us", ns / 1e3);
  if (std::abs(ns) < 1e9) return fmt::format("{:.3f} ms", ns / 1e6);
  return fmt::format("{:.3f} s", ns / 1e9);
}

}  // namespace ferry
