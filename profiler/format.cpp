#include "profiler/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/check.h"

namespace ferry::profiler {
namespace {

std::size_t display_width(std::string_view text) {
  // Continuation bytes of UTF-8 take no column.
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

std::string_view cause_text(trace::PlacementCause cause) {
  switch (cause) {
    case trace::PlacementCause::default_device:
      return "the default device";
    case trace::PlacementCause::guard:
      return "as a DeviceGuard says";
    case trace::PlacementCause::placement_file:
      return "as the placement file says";
    case trace::PlacementCause::op_rule:
      return "by the op's own rule";
    case trace::PlacementCause::fallback:
      return "for want of a kernel on the device asked for";
    case trace::PlacementCause::inherited:
      return "where its forward op or parameter is";
  }
  return "";
}

constexpr std::string_view kSortNames[] = {"default", "total", "calls", "max", "min", "ave"};

}  // namespace

SortKey parse_sort_key(std::string_view text) {
  const auto found = std::ranges::find(kSortNames, text);
  FERRY_CHECK(found != std::end(kSortNames), InvalidArgument,
              "'{}' is not a sort key; known: default, total, calls, max, min, ave", text);
  return static_cast<SortKey>(found - std::begin(kSortNames));
}

std::string milliseconds(Nanoseconds time) {
  const double value = static_cast<double>(time.count()) / 1e6;
  const double magnitude = std::abs(value);
  // A nanosecond is the sixth decimal: more digits would be invented.
  const int digits = magnitude < 1 ? 6 : std::max(0, 5 - static_cast<int>(std::floor(std::log10(magnitude))));
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string percent(double ratio) { return fmt::format("{:.6g}%", ratio * 100); }

std::string short_percent(double ratio) { return fmt::format("{:.2f}%", ratio * 100); }

std::string short_function(std::string_view name) {
  std::string function(name);
  for (const std::string_view unnamed : {"{anonymous}::", "(anonymous namespace)::"}) {
    for (std::size_t at = 0; (at = function.find(unnamed, at)) != std::string::npos;)
      function.erase(at, unnamed.size());
  }
  int depth = 0;  // of <…>: template arguments and return types may hold spaces and parentheses
  std::size_t begin = 0, end = function.size();
  for (std::size_t i = 0; i < function.size(); ++i) {
    if (function[i] == '<') ++depth;
    if (function[i] == '>' && depth > 0) --depth;
    if (depth > 0) continue;
    if (function[i] == ' ') begin = i + 1;
    if (function[i] == '(') {
      end = i;
      break;
    }
  }
  while (begin < end && (function[begin] == '*' || function[begin] == '&')) ++begin;
  return begin < end ? function.substr(begin, end - begin) : function;
}

std::string site_text(const trace::Trace& trace, trace::SiteIndex index) {
  if (index < 0) return "an unknown line";
  const trace::Site& site = trace.sites[static_cast<std::size_t>(index)];
  const std::string place = fmt::format("{}:{}", site.file, site.line);
  return site.function.empty() ? place : fmt::format("{} ({})", place, short_function(site.function));
}

std::string tensor_text(const trace::Trace& trace, trace::TensorIndex tensor) {
  return tensor < 0 ? "a tensor" : trace.tensors[static_cast<std::size_t>(tensor)].name;
}

std::string counted(std::int64_t count, std::string_view singular, std::string_view plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

std::string placement_text(const trace::Trace& trace, const trace::Hotspot& hotspot) {
  const Placement placement = placement_of(trace, hotspot);
  const std::string where = placement.device.is_cpu() ? "the CPU" : to_string(placement.device);
  std::string text = fmt::format("{} ran on {}, {}", trace.string(hotspot.op_name), where, cause_text(placement.cause));
  if (placement.device != hotspot.to) {
    text += fmt::format(", and reads {} in host memory", tensor_text(trace, hotspot.tensor));
  }
  return text;
}

int same_change(const std::vector<trace::Hotspot>& findings, std::size_t finding, const trace::Advice& advice) {
  for (std::size_t i = 0; i < finding; ++i) {
    for (const trace::Advice& known : findings[i].advice) {
      if (known.device == advice.device && known.sites == advice.sites && known.ops == advice.ops &&
          known.text == advice.text)
        return static_cast<int>(i);
    }
  }
  return -1;
}

std::string advice_text(const std::vector<trace::Hotspot>& findings, std::size_t finding, const trace::Advice& advice) {
  const int same = same_change(findings, finding, advice);
  if (same < 0) return advice.text;
  return fmt::format("same change as {}: {}", same + 1, advice.text.substr(0, advice.text.find(": ")));
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  const std::size_t margin = std::min(text.find_first_not_of(' '), text.size());
  std::string lines(margin, ' ');
  std::size_t column = margin;
  text.remove_prefix(margin);
  for (bool begins = true; !text.empty(); begins = false) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (!begins && column + 1 + display_width(word) > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!begins) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += display_width(word);
  }
  return lines;
}

std::string_view sort_text(SortKey sort) {
  switch (sort) {
    case SortKey::default_order:
      return "first call in the same thread";
    case SortKey::total:
      return "total time in descending order in the same thread";
    case SortKey::calls:
      return "number of calls in descending order in the same thread";
    case SortKey::max:
      return "maximum time in descending order in the same thread";
    case SortKey::min:
      return "minimum time in descending order in the same thread";
    case SortKey::ave:
      return "average time in descending order in the same thread";
  }
  return "";
}

std::string TextTable::render() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - display_width(row[i]), ' ');
      if (i > 0) line.append(static_cast<std::size_t>(gap_), ' ');
      line += columns_[i] == Align::left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace ferry::profiler
