#include "tools/common/pictures.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <zlib.h>

namespace program {
namespace {

using GzipFile = std::unique_ptr<gzFile_s, decltype(&gzclose)>;

// An array of bytes: idx's only type here.
struct Idx {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

std::string find_file(const std::string& folder, const std::string& name) {
  for (const char* const ending : {"", ".gz"}) {
    std::string path = folder + '/' + name + ending;
    if (std::filesystem::exists(path)) return path;
  }
  throw ferry::InvalidArgument(
      fmt::format("{}/{}.gz is missing: install Debian's package dataset-fashion-mnist, or name a folder with --data",
                  folder, name));
}

void read(gzFile file, std::span<std::uint8_t> bytes, std::int64_t at, const std::string& path) {
  const auto wanted = static_cast<unsigned>(bytes.size());
  const int count = gzread(file, bytes.data(), wanted);
  if (count < 0 || static_cast<unsigned>(count) != wanted) {
    throw ferry::ParseError(
        fmt::format("{}: byte {}: the file ends or is damaged after here", path, at + std::max(count, 0)));
  }
}

// The format: 0, 0, type (8: bytes), rank, then an extent of four big-endian bytes for each axis, then the elements.
Idx read_idx(const std::string& path, std::uint8_t rank, std::int64_t limit) {
  const GzipFile file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw ferry::InvalidArgument(fmt::format("cannot read {}", path));
  std::uint8_t head[4];
  read(file.get(), head, 0, path);
  if (head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != rank) {
    throw ferry::ParseError(fmt::format("{}: byte 0: no idx file of bytes with {} axes", path, rank));
  }
  Idx idx;
  std::int64_t at = sizeof head, count = 1;
  for (std::uint8_t axis = 0; axis < rank; ++axis, at += 4) {
    std::uint8_t extent[4];
    read(file.get(), extent, at, path);
    idx.shape.push_back(extent[0] << 24 | extent[1] << 16 | extent[2] << 8 | extent[3]);
    if (axis == 0 && limit > 0) idx.shape[0] = std::min(idx.shape[0], limit);
    if (idx.shape.back() <= 0 || (count *= idx.shape.back()) > INT32_MAX) {
      throw ferry::ParseError(fmt::format("{}: byte {}: an extent of {} makes no sense", path, at, idx.shape.back()));
    }
  }
  idx.bytes.resize(static_cast<std::size_t>(count));
  read(file.get(), idx.bytes, at, path);
  return idx;
}

}  // namespace

Pictures::Pictures(const std::string& folder, const std::string& stem, std::int64_t limit) {
  const std::string images_path = find_file(folder, stem + "-images-idx3-ubyte");
  const std::string labels_path = find_file(folder, stem + "-labels-idx1-ubyte");
  Idx images = read_idx(images_path, 3, limit), labels = read_idx(labels_path, 1, limit);
  if (images.shape[0] != labels.shape[0]) {
    throw ferry::ParseError(fmt::format("{} holds {} pictures, {} labels for {}", images_path, images.shape[0],
                                        labels_path, labels.shape[0]));
  }
  const auto wrong =
      std::find_if(labels.bytes.begin(), labels.bytes.end(), [](auto label) { return label >= kPictureClasses; });
  if (wrong != labels.bytes.end()) {
    throw ferry::ParseError(fmt::format("{}: byte {}: label {} is not below {}", labels_path,
                                        8 + (wrong - labels.bytes.begin()), *wrong, kPictureClasses));
  }
  height_ = images.shape[1];
  width_ = images.shape[2];
  pixels_ = std::move(images.bytes);
  labels_ = std::move(labels.bytes);
}

PictureBatch Pictures::batch(std::span<const std::int32_t> positions) const {
  const auto picture = static_cast<std::size_t>(height_ * width_);
  std::vector<std::uint8_t> images;
  std::vector<std::int64_t> labels;
  images.reserve(positions.size() * picture);
  for (const std::int32_t position : positions) {
    const auto first = pixels_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(position) * picture);
    images.insert(images.end(), first, first + static_cast<std::ptrdiff_t>(picture));
    labels.push_back(labels_[static_cast<std::size_t>(position)]);
  }
  const auto count = static_cast<std::int64_t>(positions.size());
  return {ferry::named(ferry::from_vector(images, {count, 1, height_, width_}), "images"),
          ferry::named(ferry::from_vector(labels), "labels")};
}

std::vector<std::int32_t> shuffled_positions(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(size));
  std::iota(positions.begin(), positions.end(), 0);
  std::seed_seq sequence{seed, seed >> 32, static_cast<std::uint64_t>(epoch)};
  std::mt19937_64 random(sequence);
  for (std::size_t i = positions.size(); i > 1; --i) std::swap(positions[i - 1], positions[random() % i]);
  return positions;
}

}  // namespace program
