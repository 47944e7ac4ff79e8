#include "swap/engine/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace ferry::swap {

SpillFile::SpillFile(std::string path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file_ < 0) fail("cannot be made");
  // Without a name it is gone however the process ends, and no other process can take it for its own.
  ::unlink(path_.c_str());
}

SpillFile::~SpillFile() { ::close(file_); }

void SpillFile::fail(const char* action) const {
  throw InvalidArgument(fmt::format("the file for swapped tensors, {}, {}: {}", path_, action, std::strerror(errno)));
}

SpillFile::Offset SpillFile::write(const void* data, Bytes size) {
  Offset at = end_;
  std::vector<Offset>& reusable = free_[size.count];
  const bool reuses = !reusable.empty();
  if (reuses) at = reusable.back();
  const auto* from = static_cast<const std::byte*>(data);
  for (std::int64_t done = 0; done < size.count;) {
    const ssize_t written = ::pwrite(file_, from + done, static_cast<std::size_t>(size.count - done), at + done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot be written");
    done += written;
  }
  if (reuses) {
    reusable.pop_back();
  } else {
    reusable.reserve(reusable.capacity() + 1);  // so that giving it back never allocates
    end_ += size.count;
  }
  in_use_ += size;
  return at;
}

void SpillFile::read(Offset from, void* data, Bytes size) const {
  auto* const to = static_cast<std::byte*>(data);
  for (std::int64_t done = 0; done < size.count;) {
    const ssize_t got = ::pread(file_, to + done, static_cast<std::size_t>(size.count - done), from + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("cannot be read");
    done += got;
  }
}

void SpillFile::give_back(Offset from, Bytes size) noexcept {
  free_[size.count].push_back(from);
  in_use_ -= size;
}

}  // namespace ferry::swap
