// The texts of src/device/specs/*.json, put into the library when it is built.
#pragma once

#include <span>
#include <string_view>

namespace ferry {

struct BuiltinSpec {
  std::string_view name;  // of the file, without ".json"
  std::string_view json;
};

// Sorted by name.
std::span<const BuiltinSpec> builtin_specs();

}  // namespace ferry
