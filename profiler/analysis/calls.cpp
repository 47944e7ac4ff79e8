#include <algorithm>
#include <array>
#include <cctype>

#include "profiler/analysis/activity.h"

namespace ferry::profiler::analysis {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_version(std::string_view text) {
  return text.size() >= 2 && text[0] == 'v' &&
         std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string_view plain_call_name(std::string_view name) {
  for (;;) {
    const std::size_t bar = name.rfind('_');
    if (bar == std::string_view::npos || bar == 0) return name;
    const std::string_view suffix = name.substr(bar + 1);
    if (!is_version(suffix) && suffix != "ptsz" && suffix != "ptds" && suffix != "spt") return name;
    name = name.substr(0, bar);
  }
}

CallClass classify_call(std::string_view full_name) {
  std::string_view name = plain_call_name(full_name);
  const std::array<std::string_view, 4> prefixes = {"cuda", "hip", "cu", "musa"};
  const auto prefix = std::find_if(prefixes.begin(), prefixes.end(),
                                   [&](std::string_view candidate) { return name.starts_with(candidate); });
  if (prefix == prefixes.end()) return CallClass::other;
  name.remove_prefix(prefix->size());
  const bool is_async = contains(name, "Async");
  if (name.starts_with("Memcpy")) return is_async ? CallClass::copy_async : CallClass::copy;
  if (name.starts_with("Memset")) return is_async ? CallClass::memset_async : CallClass::memset;
  if (name == "StreamSynchronize") return CallClass::wait_stream;
  if (name == "EventSynchronize") return CallClass::wait_event;
  if (name == "DeviceSynchronize" || name == "CtxSynchronize" || name == "ThreadSynchronize")
    return CallClass::wait_device;
  if (name.starts_with("EventRecord")) return CallClass::record_event;
  if (name == "Free" || name == "MemFree") return CallClass::free_memory;
  if (contains(name, "Launch")) return CallClass::launch;
  return CallClass::other;
}

}  // namespace ferry::profiler::analysis
