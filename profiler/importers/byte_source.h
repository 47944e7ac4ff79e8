// The bytes of a trace, from a file or memory, decompressed on the way where they begin with gzip's magic bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ferry::profiler::importers {

// A stream of bytes that is read once. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` bytes; 0 only at the end. Throws: ParseError when reading or decompressing fails.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

// What editors and shells of one system put before UTF-8 text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// A file or text to import, and what it begins with.
class Input {
 public:
  // Throws: ParseError when the file cannot be opened or read.
  static Input file(const std::string& path);
  // `bytes` must outlive the input.
  static Input memory(std::string name, std::string_view bytes);

  const std::string& name() const { return name_; }
  // "" for memory.
  const std::string& path() const { return path_; }
  // All bytes of memory; "" for a file.
  std::string_view bytes() const { return bytes_; }
  // The first bytes, decompressed, without a byte order mark; 1 MiB of them where there are as many.
  std::string_view head() const { return head_; }
  bool compressed() const { return compressed_; }

  // The whole content from its beginning, decompressed. A source refers to the input's memory, not to the input.
  std::unique_ptr<ByteSource> open() const;

 private:
  void look();

  std::string name_, path_, head_;
  std::string_view bytes_{};
  bool compressed_ = false;
};

}  // namespace ferry::profiler::importers
