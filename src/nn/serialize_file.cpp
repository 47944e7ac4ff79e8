#include "src/nn/serialize_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "src/base/check.h"

namespace ferry::nn {
namespace {

// errno is read before the message is built, which may change it.
[[noreturn]] void fail(std::string_view action, const std::string& path) {
  const int code = errno;
  throw InvalidArgument(fmt::format("cannot {} {}: {}", action, path, std::strerror(code)));
}

// A rename would put a file where a folder, a device or a pipe is.
const std::string& replaceable(const std::string& path) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  FERRY_CHECK(!exists || S_ISREG(status.st_mode), InvalidArgument, "cannot write {}: it is no file", path);
  return path;
}

// A rename is kept over a loss of power once its folder is on the disk. Some file systems cannot do that for folders.
void sync_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const FileHandle handle(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() >= 0) ::fsync(handle.get());
}

}  // namespace

FileHandle::~FileHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReplacementFile::ReplacementFile(const std::string& path)
    : path_(replaceable(path)),
      temporary_(path + ".tmp"),
      file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_.get() < 0) fail("write", temporary_);
}

ReplacementFile::~ReplacementFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void ReplacementFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void ReplacementFile::commit() {
  if (::fsync(file_.get()) != 0) fail("write", temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace", path_);
  committed_ = true;
  sync_folder(path_);
}

InputFile::InputFile(const std::string& path) : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) fail("read", path);
  FERRY_CHECK(S_ISREG(status.st_mode), InvalidArgument, "cannot read {}: it is no file", path);
  size_ = status.st_size;
}

void InputFile::read(std::int64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path_);
    FERRY_CHECK(count > 0, ParseError, "{}: byte {}: the file ended while it was read", path_, at);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += count;
  }
}

}  // namespace ferry::nn
