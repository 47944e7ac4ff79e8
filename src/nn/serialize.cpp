// Tensors to and from safetensors files, in pieces.
#include <algorithm>
#include <bit>
#include <set>

#include <ferry/device_guard.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/safetensors.h>
#include "src/base/check.h"
#include "src/nn/serialize_file.h"
#include "src/nn/serialize_header.h"
#include "src/nn/state_dict.h"
#include "src/runtime/values.h"

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

namespace ferry {
namespace {

constexpr std::int64_t kPiece = std::int64_t{8} << 20;  // bytes held at a time while reading

// Places in the order of decreasing element size, so that each tensor is aligned for readers that map the file.
std::vector<nn::TensorEntry> lay_out(const std::vector<nn::NamedTensor>& tensors, std::vector<std::size_t>& order) {
  std::set<std::string_view> names = {"__metadata__"};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    FERRY_CHECK(names.insert(tensors[i].name).second, InvalidArgument,
                "save_tensors: the name '{}' is reserved or used twice", tensors[i].name);
    FERRY_CHECK(tensors[i].tensor.defined(), InvalidArgument, "save_tensors: '{}' is an undefined tensor",
                tensors[i].name);
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].tensor.dtype()) > size_of(tensors[b].tensor.dtype());
  });
  std::vector<nn::TensorEntry> entries;
  std::int64_t at = 0;
  for (const std::size_t i : order) {
    const Tensor& tensor = tensors[i].tensor;
    const std::int64_t begin = at;
    at += tensor.nbytes().count;
    entries.push_back({tensors[i].name, tensor.dtype(), tensor.shape(), begin, at});
  }
  return entries;
}

void write_elements(const Tensor& tensor, nn::ReplacementFile& file) {
  if (tensor.numel() == 0) return;
  const NoGrad no_grad;
  const DeviceGuard<cpu> on_host;
  const Tensor dense = tensor.to(cpu::device).contiguous();
  file.write(host_bytes(dense, "save_tensors"));
}

nn::FileHeader read_header(const nn::InputFile& file) {
  FERRY_CHECK(file.size() >= nn::kLengthBytes, ParseError, "{}: byte {}: the file ends within the header's length",
              file.path(), file.size());
  std::array<unsigned char, nn::kLengthBytes> length{};
  file.read(0, std::as_writable_bytes(std::span(length)));
  std::string json(static_cast<std::size_t>(nn::header_length(length, file.size(), file.path())), '\0');
  file.read(nn::kLengthBytes, std::as_writable_bytes(std::span(json)));
  return nn::parse_header(json, file.size(), file.path());
}

// The elements [begin, end) of the file's data as a tensor of `shape`.
Tensor read_piece(const nn::InputFile& file, std::int64_t at, DType dtype, const Shape& shape) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(shape.product() * size_of(dtype)));
  file.read(at, bytes);
  if (dtype == DType::boolean) {
    for (std::byte& byte : bytes) byte = std::byte{byte != std::byte{0}};
  }
  return from_host(bytes.data(), dtype, shape);
}

// Fills `tensor`, of the entry's shape and converting to its dtype, a few rows at a time.
void read_elements(const nn::InputFile& file, const nn::TensorEntry& entry, std::int64_t data_start,
                   const Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const NoGrad no_grad;
  const std::int64_t start = data_start + entry.begin;
  if (entry.shape.rank() == 0) {
    Tensor(tensor).copy_(read_piece(file, start, entry.dtype, entry.shape));
    return;
  }
  const std::int64_t row_bytes = (entry.end - entry.begin) / entry.shape[0];
  const std::int64_t step = std::max<std::int64_t>(kPiece / row_bytes, 1);
  for (std::int64_t row = 0; row < entry.shape[0]; row += step) {
    Shape shape = entry.shape;
    shape[0] = std::min(step, entry.shape[0] - row);
    narrow(tensor, 0, row, shape[0]).copy_(read_piece(file, start + row * row_bytes, entry.dtype, shape));
  }
}

}  // namespace

void save_tensors(const std::string& path, const std::vector<nn::NamedTensor>& tensors, const Metadata& metadata) {
  std::vector<std::size_t> order;
  const std::string header = nn::format_header(lay_out(tensors, order), metadata);
  nn::ReplacementFile file(path);
  file.write(std::as_bytes(std::span(header)));
  for (const std::size_t i : order) write_elements(tensors[i].tensor, file);
  file.commit();
}

TensorFile load_tensors(const std::string& path) {
  const nn::InputFile file(path);
  nn::FileHeader header = read_header(file);
  TensorFile result{{}, std::move(header.metadata)};
  for (const nn::TensorEntry& entry : header.entries) {
    const DeviceGuard<cpu> on_host;
    result.tensors.push_back({entry.name, named(zeros(entry.shape, entry.dtype), entry.name)});
    read_elements(file, entry, header.data_start, result.tensors.back().tensor);
  }
  return result;
}

Metadata load_metadata(const std::string& path) { return read_header(nn::InputFile(path)).metadata; }

namespace nn {

void save(const Module& module, const std::string& path) { save_tensors(path, module.state_dict()); }

LoadReport load(Module& module, const std::string& path, const LoadOptions& options) {
  const InputFile file(path);
  const FileHeader header = read_header(file);
  std::vector<OfferedTensor> offered;
  for (const TensorEntry& entry : header.entries) offered.push_back({entry.name, entry.dtype, entry.shape});
  const std::vector<NamedTensor> state = module.state_dict();
  const Match match = match_state(state, offered, options, "the file", [&](const std::string& what, std::ptrdiff_t at) {
    if (at < 0) throw ParseError(fmt::format("{}: {}", path, what));
    const std::int64_t byte = header.data_start + header.entries[static_cast<std::size_t>(at)].begin;
    throw ParseError(fmt::format("{}: byte {}: {}", path, byte, what));
  });
  for (const auto& [target, source] : match.pairs) {
    read_elements(file, header.entries[source], header.data_start, state[target].tensor);
  }
  return match.report;
}

}  // namespace nn
}  // namespace ferry
