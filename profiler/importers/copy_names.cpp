#include "profiler/importers/copy_names.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace ferry::profiler::importers {
namespace {

struct Word {
  std::string_view word;
  Direction direction;
};
// Of names without spaces and marks: "Memcpy HtoD (Host -> Device)" is "memcpyhtodhostdevice". Arrays are device
// memory.
constexpr Word kDirections[] = {{"htod", Direction::host_to_device},
                                {"h2d", Direction::host_to_device},
                                {"htoa", Direction::host_to_device},
                                {"hosttodevice", Direction::host_to_device},
                                {"hostdevice", Direction::host_to_device},
                                {"pageabledevice", Direction::host_to_device},
                                {"pinneddevice", Direction::host_to_device},
                                {"cpugpu", Direction::host_to_device},
                                {"pinnedgpu", Direction::host_to_device},
                                {"dtoh", Direction::device_to_host},
                                {"d2h", Direction::device_to_host},
                                {"atoh", Direction::device_to_host},
                                {"devicetohost", Direction::device_to_host},
                                {"devicehost", Direction::device_to_host},
                                {"devicepageable", Direction::device_to_host},
                                {"devicepinned", Direction::device_to_host},
                                {"gpucpu", Direction::device_to_host},
                                {"gpucudapinned", Direction::device_to_host},
                                {"dtod", Direction::device_to_device},
                                {"d2d", Direction::device_to_device},
                                {"ptop", Direction::device_to_device},
                                {"p2p", Direction::device_to_device},
                                {"peer", Direction::device_to_device},
                                {"atod", Direction::device_to_device},
                                {"dtoa", Direction::device_to_device},
                                {"atoa", Direction::device_to_device},
                                {"devicetodevice", Direction::device_to_device},
                                {"devicedevice", Direction::device_to_device},
                                {"gpugpu", Direction::device_to_device},
                                {"htoh", Direction::host_to_host},
                                {"h2h", Direction::host_to_host},
                                {"hosttohost", Direction::host_to_host},
                                {"hosthost", Direction::host_to_host}};

std::string without_marks(std::string_view lower_case) {
  std::string result;
  for (const char c : lower_case) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result += c;
  }
  return result;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return result;
}

bool is_host_memory(std::string_view kind) { return kind == "pageable" || kind == "pinned"; }

// "kind_src:pageable" → "pageable".
std::string_view field(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, text.find(' '));
}

}  // namespace

CopyDetail copy_of_name(std::string_view name) {
  const std::string text = lower(name), words = without_marks(text);
  CopyDetail copy;
  for (const Word& word : kDirections) {
    if (words.find(word.word) == std::string::npos) continue;
    copy.direction = word.direction;
    break;
  }
  const std::string_view from = field(text, "kind_src:"), to = field(text, "kind_dst:");
  if (copy.direction == Direction::unknown && !from.empty() && !to.empty()) {
    if (is_host_memory(from)) copy.direction = is_host_memory(to) ? Direction::host_to_host : Direction::host_to_device;
    if (!is_host_memory(from) && is_host_memory(to)) copy.direction = Direction::device_to_host;
    if (from == "device" && to == "device") copy.direction = Direction::device_to_device;
  }
  if (text.find("pageable") != std::string::npos) {
    copy.memory = HostMemory::pageable;
  } else if (text.find("pinned") != std::string::npos) {
    copy.memory = HostMemory::pinned;
  } else if (text.find("managed") != std::string::npos || text.find("unified") != std::string::npos) {
    copy.memory = HostMemory::managed;
  }
  const std::string_view size = field(text, "size:");
  std::from_chars(size.data(), size.data() + size.size(), copy.size.count);
  return copy;
}

Direction direction_of_kind(std::string_view number) {
  if (number == "0") return Direction::host_to_host;
  if (number == "1") return Direction::host_to_device;
  if (number == "2") return Direction::device_to_host;
  if (number == "3") return Direction::device_to_device;
  return Direction::unknown;
}

}  // namespace ferry::profiler::importers
