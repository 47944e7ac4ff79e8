// A placement file: rules that act like DeviceGuards written at call sites, in module scopes or around ops, so that
// advice can be applied without touching code.
//
//   {"rules": [{"site": "main.cpp:31", "device": "cpu"},
//              {"scope": "encoder.embedding*", "op": "embedding", "device": "cpu"}]}
//
// A rule applies to an op call when every condition it states holds: `site` is "FILE:LINE", FILE matching the end of
// the source path at a '/'; `scope` and `op` are patterns in which * stands for any text. A scope pattern may begin at
// any part of the path: "encoder*" holds in "encoder.embedding" and in "step/encoder.embedding". The first rule that
// applies wins over guards in the code.
#pragma once

#include <atomic>
#include <memory>
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
  std::string text{};  // as the file has it
};

// Thread-safety: match may be called from any thread.

class PlacementRules {
 public:
  PlacementRules() = default;
  // Throws: ParseError naming file, rule and field.
  static PlacementRules load(const std::string& path);

  bool empty() const { return rules_.empty(); }
  const std::vector<PlacementRule>& rules() const { return rules_; }
  // Throws: InvalidArgument naming file and rule for a device past the last of `gpus`; `devices` says what there is.
  void require_devices(int gpus, std::string_view devices) const;
  std::optional<Device> match(std::string_view op, std::string_view scope, const std::source_location& where) const;
  // A line for each rule that has applied to no op yet.
  std::vector<std::string> unused() const;

 private:
  std::string name_of_rule(std::size_t index) const;

  std::string path_;
  std::vector<PlacementRule> rules_;
  std::unique_ptr<std::atomic<bool>[]> applied_;
};

// The pattern holds for the path or for what is left of it after one of its '/' or '.'.
bool matches_scope(std::string_view pattern, std::string_view path);
// `*` in the pattern stands for any text, empty included.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace ferry::placement
