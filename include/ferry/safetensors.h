// Tensors in files: the safetensors format, which PyTorch, NumPy, JAX and others read and write.
//
// A file is an 8-byte little-endian length, that many bytes of JSON (for each tensor its dtype, shape and place in the
// data, and under "__metadata__" a map of text), then the elements, row-major and little-endian. F64, F32, F16, BF16,
// I64, I32, U8 and BOOL are known. Elements pass through in pieces: no tensor is held in memory twice.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ferry/nn.h>

namespace ferry {

using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<nn::NamedTensor> tensors;  // in the order of their data in the file
  Metadata metadata;
};

// Writes PATH.tmp beside `path`, waits until the disk has it, then renames it: `path` holds the old file or the new
// one, never a part. Throws: InvalidArgument (two tensors of one name, the name "__metadata__", a file that cannot be
// written, a runtime in timing-only mode).
void save_tensors(const std::string& path, const std::vector<nn::NamedTensor>& tensors, const Metadata& metadata = {});

// The file's tensors, in host memory. Throws: InvalidArgument for a file that cannot be opened; ParseError for one that
// is not well formed, naming file, tensor and byte.
TensorFile load_tensors(const std::string& path);

// The file's metadata alone. Throws: as load_tensors.
Metadata load_metadata(const std::string& path);

}  // namespace ferry
