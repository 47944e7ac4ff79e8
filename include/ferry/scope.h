// Scope: names a region of the program in reports. Module calls open one each; scopes nest into paths such as
// "encoder/layer3.0.conv2". Per thread.
#pragma once

#include <cstddef>
#include <source_location>
#include <string_view>

#include <ferry/units.h>

namespace ferry {

class [[nodiscard]] Scope {
 public:
  explicit Scope(std::string_view name) : Scope(name, '/', nullptr) {}
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // The calling thread's path; "" outside.
  static std::string_view path();
  // Where the outermost module call of the calling thread stands; null outside modules.
  static const std::source_location* module_call();

 protected:
  Scope(std::string_view name, char separator, const std::source_location* module_call);

 private:
  std::size_t outer_length_;
  const std::source_location* outer_call_;
  bool recorded_;
  Nanoseconds begin_{};
};

// The call of a module: parts join with '.', and ops inside show `where` of the outermost call as their line.
class [[nodiscard]] ModuleScope : public Scope {
 public:
  // Requires: `where` lives as long as the scope.
  ModuleScope(std::string_view name, const std::source_location& where) : Scope(name, '.', &where) {}
};

}  // namespace ferry
