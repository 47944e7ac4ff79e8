// Gives the calling thread the scope path of another time: backward ops report the scope of their forward op.
#pragma once

#include <string>
#include <string_view>

namespace ferry {

class [[nodiscard]] RestoredScope {
 public:
  explicit RestoredScope(std::string_view path);
  ~RestoredScope();
  RestoredScope(const RestoredScope&) = delete;
  RestoredScope& operator=(const RestoredScope&) = delete;

 private:
  std::string outer_;
};

}  // namespace ferry
