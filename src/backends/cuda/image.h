// Where the elements of an image [N, C, H, W] lie, in either order of memory, and of what is treated as one: [N, C] and
// dense [N, C, …].
#pragma once

#include "src/device/kernel.h"
#include "src/kernels/functor.h"

namespace ferry::cuda_backend {

struct Image {
  std::int64_t images = 1, channels = 1, height = 1, width = 1;
  std::int64_t n_step = 0, c_step = 0, h_step = 0, w_step = 0;

  FERRY_FUNCTOR std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * n_step + c * c_step + h * h_step + w * w_step;
  }
  // By the position in a plane; positions of a plane have one distance in both orders.
  FERRY_FUNCTOR std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t p) const {
    return n * n_step + c * c_step + p * w_step;
  }
  FERRY_FUNCTOR std::int64_t plane() const { return height * width; }
  FERRY_FUNCTOR std::int64_t count() const { return images * channels * plane(); }
  FERRY_FUNCTOR bool channels_last() const { return c_step == 1 && channels > 1; }
};

// Rank 2: an image of one position. Other ranks than 4: trailing axes as one, dense.
inline Image image_of(const TensorView& view) {
  const Shape& shape = view.shape;
  const int rank = shape.rank();
  if (rank == 4) {
    // Strides of axes of one element say nothing; positions get the distance that the order implies.
    Image image{shape[0], shape[1], shape[2], shape[3], 0, 0, 0, 0};
    const bool last = view.strides != contiguous_strides(shape) && view.strides == channels_last_strides(shape);
    const std::int64_t plane = shape[2] * shape[3];
    image.n_step = shape[1] * plane;
    image.c_step = last ? 1 : plane;
    image.w_step = last ? shape[1] : 1;
    image.h_step = shape[3] * image.w_step;
    return image;
  }
  std::int64_t plane = 1;
  for (int axis = 2; axis < rank; ++axis) plane *= shape[axis];
  return {shape[0], shape[1], 1, plane, shape[1] * plane, plane, plane, 1};
}

struct Place {
  std::int64_t n, c, h, w;
};

// The place of the i-th element in the image's own order of memory.
FERRY_FUNCTOR Place place_in(const Image& image, std::int64_t i) {
  Place place;
  if (image.channels_last()) {
    place.c = i % image.channels;
    i /= image.channels;
  }
  place.w = i % image.width;
  i /= image.width;
  place.h = i % image.height;
  i /= image.height;
  if (!image.channels_last()) {
    place.c = i % image.channels;
    i /= image.channels;
  }
  place.n = i;
  return place;
}

}  // namespace ferry::cuda_backend
