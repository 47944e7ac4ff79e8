#include "src/memory/shortage.h"

#include <string>

#include <fmt/format.h>

namespace ferry::memory {
namespace {

// "6,000,000,000 bytes (5.59 GiB)", so that a figure can be found again in the program.
std::string exact(Bytes bytes) {
  std::string digits = fmt::format("{}", bytes.count);
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return bytes < kKiB ? digits + " bytes" : fmt::format("{} bytes ({})", digits, to_string(bytes));
}

double percent(Bytes part, Bytes whole) {
  return 100 * static_cast<double>(part.count) / static_cast<double>(whole.count);
}

std::string fragmentation(const Shortage& s) {
  return fmt::format(
      "The largest free block is {} of {} free: fragmentation. Allocate large tensors before small ones, or keep fewer "
      "live between steps.",
      to_string(s.largest_free), to_string(s.reserved - s.active));
}

std::string advice(const Shortage& s, Bytes limit) {
  if (s.needed > limit) {
    return fmt::format("It can never fit: it is larger than the whole {}.", s.limit_is);
  }
  if (const Bytes available = limit - s.active; s.needed > available) {
    const Bytes missing = s.needed - available;
    return fmt::format("{} are missing, {:.1f} % of what is in use: a smaller batch or fewer live tensors make room.",
                       to_string(missing), percent(missing, s.active));
  }
  if (s.reserved - s.active >= s.needed || s.needed + s.reserved > limit) return fragmentation(s);
  return fmt::format(
      "{} of the {} are not reserved here, but the device gave none: other programs or runtimes use them.",
      to_string(limit - s.reserved), s.limit_is);
}

}  // namespace

OutOfMemory out_of_memory(const Shortage& s) {
  const std::string figures = fmt::format("out of memory on {}: {} asked for, {} in use, {} reserved", s.where,
                                          exact(s.requested), to_string(s.allocated), to_string(s.reserved));
  const OutOfMemory::Figures values{s.requested, s.allocated, s.reserved, s.limit.value_or(s.reserved)};
  if (!s.limit) return {fmt::format("{}. The system gave no more.", figures), values};
  return {fmt::format("{}, {} {}. {}", figures, s.limit_is, to_string(*s.limit), advice(s, *s.limit)), values};
}

}  // namespace ferry::memory
