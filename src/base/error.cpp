#include <ferry/error.h>

#include <fmt/format.h>

namespace ferry {

void Error::locate(std::string_view op, const std::source_location& where) {
  if (located_) return;
  located_ = true;
  message_ += fmt::format(" [{} at {}:{}]", op, where.file_name(), where.line());
}

}  // namespace ferry
