// A placement file: rules that act like DeviceGuards written at call sites, in module scopes or around ops, so that
// advice can be applied without touching code.
//
//   {"rules": [{"site": "main.cpp:31", "device": "cpu"},
//              {"scope": "encoder.embedding*", "op": "embedding", "device": "cpu"}]}
//
// A rule applies to an op call when every condition it states holds: `site` is "FILE:LINE", FILE matching the end of
// the source path at a '/'; `scope` and `op` are patterns in which * stands for any text. The first rule that applies
// wins over guards in the code.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/device.h>

namespace ferry::placement {

struct PlacementRule {
  std::string file;   // empty: any
  int line = 0;       // with file
  std::string scope;  // empty: any
  std::string op;     // empty: any
  Device device;
};

class PlacementRules {
 public:
  PlacementRules() = default;
  // Throws: ParseError naming file, rule and field.
  static PlacementRules load(const std::string& path);

  bool empty() const { return rules_.empty(); }
  const std::vector<PlacementRule>& rules() const { return rules_; }
  std::optional<Device> match(std::string_view op, std::string_view scope, const std::source_location& where) const;

 private:
  std::vector<PlacementRule> rules_;
};

// `*` in the pattern stands for any text, empty included.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace ferry::placement
