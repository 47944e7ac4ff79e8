// Decimal numbers as integers of a smaller unit, exactly: microseconds with fractions become nanoseconds without
// passing through a double, which has no room for nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ferry::profiler::importers {

// `text` times 10^shift, rounded to the nearest integer: scaled("1712195495519695.8", 3) is 1712195495519695800.
// Takes a sign, a fraction and an exponent; nothing for other text and for values beyond 64 bits.
std::optional<std::int64_t> scaled(std::string_view text, int shift);

// All of `text` as an integer, hexadecimal with "0x"; nothing for other text and for values beyond 64 bits.
std::optional<std::int64_t> integer(std::string_view text);
std::optional<std::uint64_t> unsigned_integer(std::string_view text);

}  // namespace ferry::profiler::importers
