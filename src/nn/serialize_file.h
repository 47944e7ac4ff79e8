// The two files that serialization works with: one that replaces another when it is complete, and one read by position.
//
// Thread-safety: none; each is used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ferry::nn {

// An open file; closes it.
class FileHandle {
 public:
  explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Writes PATH.tmp; commit() makes it PATH. Without commit the temporary file is removed.
// Throws: InvalidArgument with the system's reason.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::string& path);
  ~ReplacementFile();
  void write(std::span<const std::byte> bytes);
  // Waits until the disk has the bytes, then renames.
  void commit();

 private:
  std::string path_, temporary_;
  FileHandle file_;
  bool committed_ = false;
};

class InputFile {
 public:
  // Throws: InvalidArgument with the system's reason.
  explicit InputFile(const std::string& path);
  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  // Fills `bytes` from position `at`. Throws: ParseError when the file ends before.
  void read(std::int64_t at, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  FileHandle file_;
  std::int64_t size_;
};

}  // namespace ferry::nn
