// Group normalisation by the loops of batch normalisation: each image is a batch of its own, whose channels' sums are
// then combined by group.
#include <algorithm>
#include <cmath>

#include "src/backends/cpu/batch_norm.h"
#include "src/backends/cpu/channel_vectors.h"
#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/normalization.h"
#include "src/backends/cpu/parallel.h"
#include "src/ops/normalization.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements a task
constexpr std::int64_t kMinRows = 32;   // of a piece, so that combining pieces stays small beside their work

// How an image's elements are cut: into the planes of channels, or into pieces of neighbouring positions that have all
// channels. Numbers are kept by image, piece and channel.
struct Cut {
  BatchNormOrder order;
  std::int64_t images, channels, positions, groups;
  std::int64_t rows;    // positions a piece, all of them in plane order
  std::int64_t pieces;  // an image

  std::int64_t tasks() const { return images * (order == kPlane ? channels : pieces); }
  std::int64_t rows_of(std::int64_t piece) const { return std::min(rows, positions - piece * rows); }
  // Of task i: its first element, the place of its numbers, its first channel among all images', and the loops'
  // extents.
  std::int64_t element(std::int64_t i) const {
    return order == kPlane ? i * positions : (i / pieces * positions + i % pieces * rows) * channels;
  }
  std::int64_t numbers(std::int64_t i) const { return order == kPlane ? i : i * channels; }
  std::int64_t channel(std::int64_t i) const { return order == kPlane ? i : i / pieces * channels; }
  std::int64_t loop_rows(std::int64_t i) const { return order == kPlane ? 1 : rows_of(i % pieces); }
  std::int64_t loop_lanes() const { return order == kPlane ? positions : channels; }
  std::int64_t group_size() const { return channels / groups; }
};

Cut make_cut(const TensorView& x, std::int64_t groups) {
  const std::int64_t channels = x.shape[1];
  std::int64_t positions = 1;
  for (int i = 2; i < x.shape.rank(); ++i) positions *= x.shape[i];
  const bool image = x.shape.rank() == 4 && is_channels_last(x) && channels > 1;
  if (!image && positions > 1) return {kPlane, x.shape[0], channels, positions, groups, positions, 1};
  const std::int64_t rows = std::max(kMinRows, kGrain / std::max<std::int64_t>(1, channels));
  return {kChannelsLast, x.shape[0], channels, positions, groups, rows, (positions + rows - 1) / rows};
}

template <class Body>
void for_each_task(const Cut& cut, const Body& body) {
  const std::int64_t work = cut.order == kPlane ? cut.positions : std::min(cut.rows, cut.positions) * cut.channels;
  parallel_for(cut.tasks(), std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, work)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) body(i);
               });
}

// Calls body(place of the numbers, channel, elements) for what group `group` of image `image` is made of, in order.
template <class Body>
void for_each_part(const Cut& cut, std::int64_t image, std::int64_t group, const Body& body) {
  for (std::int64_t piece = 0; piece < cut.pieces; ++piece) {
    for (std::int64_t c = group * cut.group_size(); c < (group + 1) * cut.group_size(); ++c) {
      body(static_cast<std::size_t>((image * cut.pieces + piece) * cut.channels + c), c, cut.rows_of(piece));
    }
  }
}

std::size_t size_of_numbers(const Cut& cut) { return static_cast<std::size_t>(cut.images * cut.pieces * cut.channels); }

// Mean and inverse standard deviation of each image's groups.
struct Statistics {
  Vector mean, inverse_std;
};

template <class T>
Statistics group_statistics(const Cut& cut, const T* x, double epsilon) {
  Vector means(size_of_numbers(cut)), m2s(size_of_numbers(cut));
  const auto moments = batch_norm_loops<T>().moments[cut.order];
  for_each_task(cut, [&](std::int64_t i) {
    moments(cut.loop_rows(i), cut.loop_lanes(), x + cut.element(i), means.data() + cut.numbers(i),
            m2s.data() + cut.numbers(i));
  });
  Statistics result;
  for (std::int64_t image = 0; image < cut.images; ++image) {
    for (std::int64_t group = 0; group < cut.groups; ++group) {
      // Chan's combination of the parts' moments.
      double mean = 0, m2 = 0, count = 0;
      for_each_part(cut, image, group, [&](std::size_t at, std::int64_t, std::int64_t elements) {
        const auto n = static_cast<double>(elements);
        const double sum = count + n, delta = means[at] - mean;
        mean += delta * (n / sum);
        m2 += m2s[at] + delta * delta * (count * n / sum);
        count = sum;
      });
      result.mean.push_back(mean);
      result.inverse_std.push_back(1 / std::sqrt(m2 / count + epsilon));
    }
  }
  return result;
}

// Calls body(number of the group, channel, place among all images' channels) for every channel of every image.
template <class Body>
void for_each_channel(const Cut& cut, const Body& body) {
  for (std::int64_t image = 0; image < cut.images; ++image) {
    for (std::int64_t c = 0; c < cut.channels; ++c) {
      body(static_cast<std::size_t>(image * cut.groups + c / cut.group_size()), static_cast<std::size_t>(c),
           static_cast<std::size_t>(image * cut.channels + c));
    }
  }
}

template <class T>
void normalize(const Cut& cut, const T* x, const Statistics& statistics, const Vector& gamma, const Vector& beta,
               T* y) {
  const auto size = static_cast<std::size_t>(cut.images * cut.channels);
  std::vector<T> mean(size), scale(size), shift(size);
  for_each_channel(cut, [&](std::size_t group, std::size_t c, std::size_t at) {
    mean[at] = static_cast<T>(statistics.mean[group]);
    scale[at] = static_cast<T>(gamma[c] * statistics.inverse_std[group]);
    shift[at] = static_cast<T>(beta[c]);
  });
  const auto apply = batch_norm_loops<T>().apply[cut.order];
  for_each_task(cut, [&](std::int64_t i) {
    const std::int64_t c = cut.channel(i);
    apply(cut.loop_rows(i), cut.loop_lanes(), x + cut.element(i), mean.data() + c, scale.data() + c, shift.data() + c,
          y + cut.element(i));
  });
}

template <class T>
void backward(const KernelContext& context, const Cut& cut, const T* dy, const T* x, const Statistics& statistics) {
  const auto size = static_cast<std::size_t>(cut.images * cut.channels);
  const Vector gamma = read_vector(context, context.in(2), cut.channels, 1);
  std::vector<T> mean(size), scale(size), slope(size), shift(size);
  for_each_channel(cut, [&](std::size_t group, std::size_t c, std::size_t at) {
    mean[at] = static_cast<T>(statistics.mean[group]);
    scale[at] = static_cast<T>(gamma[c] * statistics.inverse_std[group]);
  });
  Vector sums(size_of_numbers(cut)), products(size_of_numbers(cut));  // of dy, and of dy (x - mean)
  const auto sum = batch_norm_loops<T>().sums[cut.order];
  for_each_task(cut, [&](std::int64_t i) {
    sum(cut.loop_rows(i), cut.loop_lanes(), dy + cut.element(i), x + cut.element(i), mean.data() + cut.channel(i),
        sums.data() + cut.numbers(i), products.data() + cut.numbers(i));
  });
  Vector dgamma(static_cast<std::size_t>(cut.channels)), dbeta(dgamma);
  const auto n = static_cast<double>(cut.positions * cut.group_size());
  for (std::int64_t image = 0; image < cut.images; ++image) {
    for (std::int64_t group = 0; group < cut.groups; ++group) {
      const double inverse_std = statistics.inverse_std[static_cast<std::size_t>(image * cut.groups + group)];
      double plain = 0, weighted = 0;
      for_each_part(cut, image, group, [&](std::size_t at, std::int64_t channel, std::int64_t) {
        const auto c = static_cast<std::size_t>(channel);
        plain += gamma[c] * sums[at];
        weighted += gamma[c] * products[at];
        dgamma[c] += products[at] * inverse_std;
        dbeta[c] += sums[at];
      });
      for (std::int64_t c = group * cut.group_size(); c < (group + 1) * cut.group_size(); ++c) {
        const auto at = static_cast<std::size_t>(image * cut.channels + c);
        slope[at] = static_cast<T>(-weighted * inverse_std * inverse_std * inverse_std / n);
        shift[at] = static_cast<T>(-plain * inverse_std / n);
      }
    }
  }
  const auto gradient = batch_norm_loops<T>().gradient[cut.order];
  T* const dx = context.out(0).template as<T>();
  for_each_task(cut, [&](std::int64_t i) {
    const std::int64_t c = cut.channel(i);
    gradient(cut.loop_rows(i), cut.loop_lanes(), dy + cut.element(i), x + cut.element(i), mean.data() + c,
             scale.data() + c, slope.data() + c, shift.data() + c, dx + cut.element(i));
  });
  write_vector(context, dgamma, optional_view(context.outputs, 1));
  write_vector(context, dbeta, optional_view(context.outputs, 2));
}

// A dense [N, G] argument as one vector.
TensorView flat(TensorView view) {
  view.shape = {view.numel()};
  view.strides = {1};
  return view;
}

std::int64_t groups_of(const KernelContext& context) { return context.attributes.as<ops::NormAttributes>().groups; }

}  // namespace

void group_norm(const KernelContext& context) {
  if (done_in_f32(context, group_norm)) return;
  const TensorView x = in_order_of(context.op, context.in(0), context.out(0), dnn::Buffer::operand);
  const Cut cut = make_cut(x, groups_of(context));
  const Vector gamma = read_vector(context, optional_view(context.inputs, 1), cut.channels, 1),
               beta = read_vector(context, optional_view(context.inputs, 2), cut.channels, 0);
  visit_types<float, double>(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Statistics statistics =
        group_statistics<T>(cut, x.as<const T>(), context.attributes.as<ops::NormAttributes>().epsilon);
    normalize<T>(cut, x.as<const T>(), statistics, gamma, beta, context.out().as<T>());
    write_vector(context, statistics.mean, flat(context.out(1)));
    write_vector(context, statistics.inverse_std, flat(context.out(2)));
  });
}

void group_norm_backward(const KernelContext& context) {
  if (done_in_f32(context, group_norm_backward)) return;
  const TensorView dy = in_order_of(context.op, context.in(0), context.out(0), dnn::Buffer::operand);
  const TensorView x = in_order_of(context.op, context.in(1), context.out(0), dnn::Buffer::primitive);
  const Cut cut = make_cut(x, groups_of(context));
  const std::int64_t numbers = cut.images * cut.groups;
  const Statistics statistics{read_vector(context, flat(context.in(3)), numbers, 0),
                              read_vector(context, flat(context.in(4)), numbers, 1)};
  visit_types<float, double>(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward<T>(context, cut, dy.as<const T>(), x.as<const T>(), statistics);
  });
}

}  // namespace ferry::cpu_backend
