#include "tools/common/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

namespace program {

std::string why_not_writable(const std::string& path) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  if (exists && std::filesystem::is_directory(path, ignored))
    return fmt::format("cannot write {}: it is a folder", path);
  // A new file is tried under another name: others may wait for this one.
  const std::string tried = exists ? path : path + ".check";
  const int file = open(tried.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | (exists ? 0 : O_CREAT), 0666);
  if (file < 0) return fmt::format("cannot write {}: {}", path, std::strerror(errno));
  close(file);
  if (!exists) std::filesystem::remove(tried, ignored);
  return {};
}

CLI::Validator writable_file() {
  return CLI::Validator([](std::string& path) { return why_not_writable(path); }, "");
}

}  // namespace program
