#include "placement/placement_file.h"

#include <charconv>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "src/base/check.h"

namespace ferry::placement {
namespace {

using nlohmann::json;

std::string text_field(const json& rule, const char* field, const std::string& where) {
  if (!rule.contains(field)) return {};
  FERRY_CHECK(rule[field].is_string(), ParseError, "{}: '{}' must be text", where, field);
  return rule[field].get<std::string>();
}

void parse_site(const std::string& site, const std::string& where, PlacementRule& rule) {
  if (site.empty()) return;
  const std::size_t colon = site.rfind(':');
  const char* digits = site.data() + (colon == std::string::npos ? site.size() : colon + 1);
  const auto [end, error] = std::from_chars(digits, site.data() + site.size(), rule.line);
  const bool whole =
      colon != std::string::npos && colon > 0 && error == std::errc{} && end == site.data() + site.size();
  FERRY_CHECK(whole && rule.line > 0, ParseError, "{}: site '{}' is not FILE:LINE", where, site);
  rule.file = site.substr(0, colon);
}

PlacementRule parse_rule(const json& entry, const std::string& where) {
  FERRY_CHECK(entry.is_object(), ParseError, "{}: a rule must be an object", where);
  for (const auto& [field, value] : entry.items()) {
    const bool known = field == "site" || field == "scope" || field == "op" || field == "device";
    FERRY_CHECK(known, ParseError, "{}: unknown field '{}'; known: site, scope, op, device", where, field);
  }
  PlacementRule rule;
  rule.text = entry.dump();
  parse_site(text_field(entry, "site", where), where, rule);
  rule.scope = text_field(entry, "scope", where);
  rule.op = text_field(entry, "op", where);
  FERRY_CHECK(!rule.file.empty() || !rule.scope.empty() || !rule.op.empty(), ParseError,
              "{}: needs at least one of site, scope, op", where);
  try {
    rule.device = parse_device(text_field(entry, "device", where));
  } catch (const InvalidArgument& error) {
    throw ParseError(fmt::format("{}: device: {}", where, error.what()));
  }
  return rule;
}

bool ends_with_path(std::string_view path, std::string_view tail) {
  if (!path.ends_with(tail)) return false;
  return path.size() == tail.size() || path[path.size() - tail.size() - 1] == '/';
}

}  // namespace

PlacementRules PlacementRules::load(const std::string& path) {
  std::ifstream file(path);
  FERRY_CHECK(file.good() && !std::filesystem::is_directory(path), ParseError, "placement file '{}' cannot be read",
              path);
  json document;
  try {
    document = json::parse(file);
  } catch (const json::parse_error& error) {
    throw ParseError(fmt::format("placement file '{}', byte {}: not JSON", path, error.byte));
  } catch (const json::out_of_range& error) {  // a number that no double holds
    throw ParseError(fmt::format("placement file '{}': {}", path, error.what()));
  }
  FERRY_CHECK(document.is_object() && document.contains("rules") && document["rules"].is_array(), ParseError,
              "placement file '{}': needs an array 'rules'", path);
  PlacementRules rules;
  rules.path_ = path;
  for (const json& entry : document["rules"]) {
    rules.rules_.push_back(parse_rule(entry, rules.name_of_rule(rules.rules_.size())));
  }
  rules.applied_ = std::make_unique<std::atomic<bool>[]>(rules.rules_.size());
  return rules;
}

std::string PlacementRules::name_of_rule(std::size_t index) const {
  return fmt::format("placement file '{}', rule {}", path_, index);
}

void PlacementRules::require_devices(int gpus, std::string_view devices) const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const Device device = rules_[i].device;
    FERRY_CHECK(device.is_cpu() || device.index < gpus, InvalidArgument, "{}: there is no {} ({})", name_of_rule(i),
                to_string(device), devices);
  }
}

std::vector<std::string> PlacementRules::unused() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (applied_[i].load(std::memory_order_relaxed)) continue;
    lines.push_back(fmt::format("{} applied to no op: {}", name_of_rule(i), rules_[i].text));
  }
  return lines;
}

std::optional<Device> PlacementRules::match(std::string_view op, std::string_view scope,
                                            const std::source_location& where) const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const PlacementRule& rule = rules_[i];
    const bool site = rule.file.empty() ||
                      (static_cast<int>(where.line()) == rule.line && ends_with_path(where.file_name(), rule.file));
    if (site && (rule.scope.empty() || matches_scope(rule.scope, scope)) &&
        (rule.op.empty() || matches_pattern(rule.op, op))) {
      if (!applied_[i].load(std::memory_order_relaxed)) applied_[i].store(true, std::memory_order_relaxed);
      return rule.device;
    }
  }
  return std::nullopt;
}

bool matches_scope(std::string_view pattern, std::string_view path) {
  while (!matches_pattern(pattern, path)) {
    const std::size_t boundary = path.find_first_of("/.");
    if (boundary == std::string_view::npos) return false;
    path.remove_prefix(boundary + 1);
  }
  return true;
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ferry::placement
