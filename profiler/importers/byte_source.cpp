#include "profiler/importers/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "src/base/check.h"

namespace ferry::profiler::importers {
namespace {

constexpr std::size_t kHeadSize = std::size_t{1} << 20;
constexpr std::size_t kCompressedBuffer = std::size_t{1} << 17;

class FileSource : public ByteSource {
 public:
  explicit FileSource(std::string path) : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    FERRY_CHECK(file_ >= 0, ParseError, "'{}' cannot be opened: {}", path_, std::strerror(errno));
    struct stat status {};
    if (::fstat(file_, &status) == 0 && S_ISDIR(status.st_mode)) {
      ::close(file_);
      throw ParseError(fmt::format("'{}' is a folder; name the trace files in it", path_));
    }
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(file_); }

  std::size_t read(char* to, std::size_t size) override {
    for (;;) {
      const ssize_t got = ::read(file_, to, size);
      if (got >= 0) return static_cast<std::size_t>(got);
      FERRY_CHECK(errno == EINTR, ParseError, "'{}' cannot be read: {}", path_, std::strerror(errno));
    }
  }

 private:
  std::string path_;
  int file_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : left_(bytes) {}

  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = std::min(size, left_.size());
    std::memcpy(to, left_.data(), count);
    left_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view left_;
};

// Members that follow each other are one stream, as gzip itself reads them.
class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), in_(kCompressedBuffer) {
    FERRY_CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK, ParseError, "{}: zlib cannot start", name_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(char* to, std::size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1u << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && !ended_) step();
    return wanted - stream_.avail_out;
  }

 private:
  bool refill() {
    if (stream_.avail_in > 0) return true;
    const std::size_t got = source_->read(in_.data(), in_.size());
    taken_ += got;
    stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
    stream_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  void step() {
    if (!refill()) {
      ended_ = true;
      return;
    }
    // Padding after the last member is no further member.
    if (between_members_ && stream_.next_in[0] != 0x1f) {
      ended_ = true;
      return;
    }
    between_members_ = false;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw ParseError(fmt::format("{}: byte {} of the compressed file: {}", name_, taken_ - stream_.avail_in,
                                   stream_.msg != nullptr ? stream_.msg : "the gzip data is damaged"));
    }
  }

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> in_;
  z_stream stream_{};
  std::uint64_t taken_ = 0;
  bool between_members_ = true, ended_ = false;
};

}  // namespace

Input Input::file(const std::string& path) {
  Input input;
  input.name_ = input.path_ = path;
  input.look();
  return input;
}

Input Input::memory(std::string name, std::string_view bytes) {
  Input input;
  input.name_ = std::move(name);
  input.bytes_ = bytes;
  input.look();
  return input;
}

std::unique_ptr<ByteSource> Input::open() const {
  std::unique_ptr<ByteSource> raw;
  if (path_.empty()) {
    raw = std::make_unique<MemorySource>(bytes_);
  } else {
    raw = std::make_unique<FileSource>(path_);
  }
  if (!compressed_) return raw;
  return std::make_unique<GzipSource>(std::move(raw), name_);
}

void Input::look() {
  char magic[2] = {};
  const std::size_t got = open()->read(magic, 2);
  compressed_ = got == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
  const std::unique_ptr<ByteSource> source = open();
  // Small files are common: memory that is not needed is not touched.
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  while (head_.size() < kHeadSize) {
    const std::size_t filled = head_.size();
    head_.resize(std::min(filled + kPiece, kHeadSize));
    const std::size_t more = source->read(head_.data() + filled, head_.size() - filled);
    head_.resize(filled + more);
    if (more == 0) break;
  }
  if (head_.starts_with(kByteOrderMark)) head_.erase(0, kByteOrderMark.size());
}

}  // namespace ferry::profiler::importers
