// Units that the interfaces speak in: bytes and nanoseconds are types, not suffixes.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

using Nanoseconds = std::chrono::nanoseconds;

// A number of bytes. Signed, so that differences are well defined.
struct Bytes {
  std::int64_t count = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) { return count += other.count, *this; }
  constexpr Bytes& operator-=(Bytes other) { return count -= other.count, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
};

constexpr Bytes kKiB{std::int64_t{1} << 10};
constexpr Bytes kMiB{std::int64_t{1} << 20};
constexpr Bytes kGiB{std::int64_t{1} << 30};

// Reads "4096", "64MiB", "1.5 GiB", "12GB" (decimal for kB, MB, GB, TB; binary for KiB, MiB, GiB, TiB).
// Throws: InvalidArgument for anything else, negative values and overflow.
Bytes parse_bytes(std::string_view text);

// "5.00 GiB", "512 B".
std::string to_string(Bytes bytes);

// "1.234 ms", "17 us": three significant decimals in the largest unit that keeps the value above one.
std::string to_string(Nanoseconds time);

}  // namespace ferry
