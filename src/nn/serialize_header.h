// The header of a safetensors file: read with every check the format asks for, and written.
//
// Thread-safety: free functions on values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/dtype.h>
#include <ferry/safetensors.h>
#include <ferry/shape.h>

namespace ferry::nn {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t begin = 0, end = 0;  // bytes from the start of the data, half-open
};

struct FileHeader {
  std::vector<TensorEntry> entries;  // by begin
  Metadata metadata;
  std::int64_t data_start = 0;  // byte of the file
};

constexpr std::int64_t kLengthBytes = 8;

// The length in a file's first eight bytes. Throws: ParseError when a file of `file_size` bytes cannot hold it.
std::int64_t header_length(std::span<const unsigned char, kLengthBytes> bytes, std::int64_t file_size,
                           const std::string& path);

// Reads the JSON that follows the length. The entries it returns fill the data without gap or overlap.
// Throws: ParseError naming `path`, the tensor and the byte of the file.
FileHeader parse_header(std::string_view json, std::int64_t file_size, const std::string& path);

// The length and the JSON for `entries`, padded with spaces so that the data starts at a multiple of eight.
std::string format_header(std::span<const TensorEntry> entries, const Metadata& metadata);

}  // namespace ferry::nn
