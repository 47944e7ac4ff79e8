// Batch and group normalisation.
#include "src/backends/cuda/cudnn.h"
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/grouped_reduce.h"
#include "src/backends/cuda/image.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/math.h"
#include "src/kernels/unary.h"
#include "src/ops/attributes.h"
#include "src/ops/normalization.h"

namespace ferry::cuda_backend {
namespace {

Neighbours neighbours_of(const Image& image) {
  return image.channels_last() || image.plane() == 1 ? Neighbours::groups : Neighbours::elements;
}

// The elements of what is normalised together: for every channel all images, or for every image a group of channels.
struct Members {
  Image image;
  std::int64_t groups = 0;  // of an image's channels; 0: batch normalisation

  FERRY_FUNCTOR std::int64_t group_size() const { return image.channels / groups; }
  FERRY_FUNCTOR std::int64_t count() const { return groups == 0 ? image.channels : image.images * groups; }
  FERRY_FUNCTOR std::int64_t length() const {
    return groups == 0 ? image.images * image.plane() : group_size() * image.plane();
  }
  FERRY_FUNCTOR std::int64_t channel(std::int64_t member, std::int64_t k) const {
    return groups == 0 ? member : member % groups * group_size() + k / image.plane();
  }
  FERRY_FUNCTOR std::int64_t image_of(std::int64_t member, std::int64_t k) const {
    return groups == 0 ? k / image.plane() : member / groups;
  }
  // Which of them an element belongs to.
  FERRY_FUNCTOR std::int64_t member_of(const Place& place) const {
    return groups == 0 ? place.c : place.n * groups + place.c / group_size();
  }
};

// Mean and inverse standard deviation. Sums are taken relative to the first element, in double, so that a large mean
// costs no precision.
template <class T>
struct Statistics {
  using C = Compute<T>;
  using Acc = Sums;
  struct Started {
    std::int64_t member;
    double shift;
  };
  Members members;
  const T* x;
  double epsilon;
  C* mean;
  C* inverse_std;

  FERRY_FUNCTOR double value(std::int64_t member, std::int64_t k) const {
    const Image& image = members.image;
    return static_cast<double>(
        load(x[image.at(members.image_of(member, k), members.channel(member, k), k % image.plane())]));
  }
  FERRY_FUNCTOR Acc identity() const { return {}; }
  FERRY_FUNCTOR Started start(std::int64_t member) const {
    return {member, members.length() == 0 ? 0.0 : value(member, 0)};
  }
  FERRY_FUNCTOR void add(Acc& acc, const Started& started, std::int64_t k) const {
    const double distance = value(started.member, k) - started.shift;
    acc.first += distance;
    acc.second += distance * distance;
  }
  FERRY_FUNCTOR Acc merge(const Acc& a, const Acc& b) const { return Sums::add(a, b); }
  FERRY_FUNCTOR void finish(std::int64_t member, const Acc& acc) const {
    const std::int64_t length = members.length();
    const double n = static_cast<double>(length < 1 ? 1 : length), offset = acc.first / n;
    const double variance = acc.second / n - offset * offset;
    mean[member] = static_cast<C>((length == 0 ? 0.0 : value(member, 0)) + offset);
    inverse_std[member] = static_cast<C>(1 / kernels::sqrt((variance < 0 ? 0.0 : variance) + epsilon));
  }
};

// y = (x - mean) gamma inverse_std + beta, or relu of it. `variance`: what is given is a variance.
template <class T>
struct Normalize {
  using C = Compute<T>;
  Members members;
  Image to;
  const T* x;
  T* y;
  Values<C> mean, spread, gamma, beta;
  bool variance;
  C epsilon;
  bool relu;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Place place = place_in(to, i);
    const std::int64_t member = members.member_of(place);
    const C inverse = variance ? C(1) / kernels::sqrt(spread[member] + epsilon) : spread[member];
    const C value = load(x[members.image.at(place.n, place.c, place.h, place.w)]);
    const C result = (value - mean[member]) * (gamma[place.c] * inverse) + beta[place.c];
    y[i] = store<T>(relu ? kernels::Relu{}(result) : result);
  }
};

// Σ g and Σ g (x - mean) with g = dy, times gamma where channels of different gamma are normalised together.
template <class T>
struct GradientSums {
  using C = Compute<T>;
  using Acc = Sums;
  Members members;
  Image slopes;  // dy's
  const T* dy;
  const T* x;
  Values<C> mean, gamma;
  Sums* sums;

  FERRY_FUNCTOR Acc identity() const { return {}; }
  FERRY_FUNCTOR std::int64_t start(std::int64_t member) const { return member; }
  FERRY_FUNCTOR void add(Acc& acc, std::int64_t member, std::int64_t k) const {
    const std::int64_t n = members.image_of(member, k), c = members.channel(member, k), p = k % slopes.plane();
    const C slope = load(dy[slopes.at(n, c, p)]) * (members.groups == 0 ? C(1) : gamma[c]);
    acc.first += slope;
    acc.second += slope * (load(x[members.image.at(n, c, p)]) - mean[member]);
  }
  FERRY_FUNCTOR Acc merge(const Acc& a, const Acc& b) const { return Sums::add(a, b); }
  FERRY_FUNCTOR void finish(std::int64_t member, const Acc& acc) const { sums[member] = acc; }
};

template <class T>
struct InputGradient {
  using C = Compute<T>;
  Members members;
  Image slopes, to;
  const T* dy;
  const T* x;
  T* dx;
  Values<C> mean, inverse_std, gamma;
  const Sums* sums;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Place place = place_in(to, i);
    const std::int64_t member = members.member_of(place);
    const double inverse = static_cast<double>(inverse_std[member]), n = static_cast<double>(members.length());
    const double outer = members.groups == 0 ? static_cast<double>(gamma[place.c]) : 1.0;
    const C scale = static_cast<C>(static_cast<double>(gamma[place.c]) * inverse);
    const C slope = static_cast<C>(-outer * inverse * inverse * inverse * sums[member].second / n);
    const C shift = static_cast<C>(-outer * inverse * sums[member].first / n);
    const C distance = load(x[members.image.at(place.n, place.c, place.h, place.w)]) - mean[member];
    dx[i] = store<T>(load(dy[slopes.at(place.n, place.c, place.h, place.w)]) * scale + distance * slope + shift);
  }
};

// dgamma and dbeta of a channel over all images.
template <class T>
struct AffineGradient {
  using C = Compute<T>;
  using Acc = Sums;
  Members members;
  Image slopes;
  const T* dy;
  const T* x;
  Values<C> mean, inverse_std;
  Target dgamma, dbeta;

  FERRY_FUNCTOR Acc identity() const { return {}; }
  FERRY_FUNCTOR std::int64_t start(std::int64_t channel) const { return channel; }
  FERRY_FUNCTOR void add(Acc& acc, std::int64_t channel, std::int64_t k) const {
    const std::int64_t n = k / slopes.plane(), p = k % slopes.plane();
    const std::int64_t member = members.member_of({n, channel, 0, 0});
    const C slope = load(dy[slopes.at(n, channel, p)]);
    acc.first += slope * ((load(x[members.image.at(n, channel, p)]) - mean[member]) * inverse_std[member]);
    acc.second += slope;
  }
  FERRY_FUNCTOR Acc merge(const Acc& a, const Acc& b) const { return Sums::add(a, b); }
  FERRY_FUNCTOR void finish(std::int64_t channel, const Acc& acc) const {
    dgamma.set(channel, acc.first);
    dbeta.set(channel, acc.second);
  }
};

// dgamma and dbeta from the sums that the input's gradient took, where those are a channel's.
struct AffineFromSums {
  const Sums* sums;
  Values<double> inverse_std;
  Target dgamma, dbeta;

  FERRY_FUNCTOR void operator()(std::int64_t channel) const {
    dgamma.set(channel, sums[channel].second * inverse_std[channel]);
    dbeta.set(channel, sums[channel].first);
  }
};

// Statistics of what is normalised together are neighbours where its elements are.
Neighbours neighbours_of(const Members& members) {
  return members.groups == 0 ? neighbours_of(members.image) : Neighbours::elements;
}

void normalize_with_statistics(const KernelContext& context, std::int64_t groups, double epsilon) {
  const TensorView &x = context.in(0), &y = context.out(0), &mean = context.out(1), &inverse = context.out(2);
  const Members members{image_of(x), groups};
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    grouped_reduce(members.count(), members.length(), neighbours_of(members),
                   Statistics<T>{members, x.as<const T>(), epsilon, mean.as<C>(), inverse.as<C>()});
    for_each(y.numel(), Normalize<T>{members,
                                     image_of(y),
                                     x.as<const T>(),
                                     y.as<T>(),
                                     {mean.data, mean.dtype, C(0)},
                                     {inverse.data, inverse.dtype, C(1)},
                                     values_of(context, 1, C(1)),
                                     values_of(context, 2, C(0)),
                                     false,
                                     C(0),
                                     false});
  });
}

void normalize_backward(const KernelContext& context, std::int64_t groups) {
  const TensorView &dy = context.in(0), &x = context.in(1), &dx = context.out(0);
  const Members members{image_of(x), groups};
  const Image slopes = image_of(dy);
  Sums* const sums = LaunchScope::current().scratch<Sums>(members.count());
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T *const dy_data = dy.as<const T>(), *const x_data = x.as<const T>();
    const auto gamma = values_of(context, 2, C(1)), mean = values_of(context, 3, C(0)),
               inverse = values_of(context, 4, C(1));
    grouped_reduce(members.count(), members.length(), neighbours_of(members),
                   GradientSums<T>{members, slopes, dy_data, x_data, mean, gamma, sums});
    for_each(dx.numel(),
             InputGradient<T>{members, slopes, image_of(dx), dy_data, x_data, dx.as<T>(), mean, inverse, gamma, sums});
    if (!context.has_output(1) && !context.has_output(2)) return;
    const Target dgamma = target_of(context, 1), dbeta = target_of(context, 2);
    if (groups == 0) {
      for_each(members.count(), AffineFromSums{sums, values_of(context, 4, 1.0), dgamma, dbeta});
    } else {
      grouped_reduce(slopes.channels, slopes.images * slopes.plane(), neighbours_of(slopes),
                     AffineGradient<T>{members, slopes, dy_data, x_data, mean, inverse, dgamma, dbeta});
    }
  });
}

// The i-th input in f32, or `otherwise` where it is not given: a value a channel.
void* channel_values(const KernelContext& context, std::size_t i, std::int64_t channels, double otherwise) {
  if (context.has_input(i) && context.in(i).dtype == DType::f32) return context.in(i).data;
  const TensorView values = scratch_view(DType::f32, {channels});
  context.has_input(i) ? copy_view(context, values, context.in(i)) : fill_view(context, values, otherwise);
  return values.data;
}

// Where a result a channel, the i-th output, is written in f32: there, or to scratch memory.
TensorView channel_result(const KernelContext& context, std::size_t i, std::int64_t channels) {
  const bool direct = context.has_output(i) && context.out(i).dtype == DType::f32;
  return direct ? context.out(i) : scratch_view(DType::f32, {channels});
}
void finish_channel_result(const KernelContext& context, std::size_t i, const TensorView& result) {
  if (context.has_output(i) && context.out(i).data != result.data) copy_view(context, context.out(i), result);
}

void batch_norm(const KernelContext& context) {
  normalize_with_statistics(context, 0, context.attributes.as<ops::BatchNormAttributes>().epsilon);
}

void batch_norm_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &x = context.in(1);
  if (normalizes_by_cudnn(x)) {
    const std::int64_t channels = x.shape[1];
    const TensorView dgamma = channel_result(context, 1, channels), dbeta = channel_result(context, 2, channels);
    const ChannelStatistics statistics{context.in(3).data, context.in(4).data};
    if (cudnn_batch_norm_backward(dy, x, {channel_values(context, 2, channels, 1), nullptr},
                                  context.attributes.as<ops::BatchNormAttributes>().epsilon, statistics, context.out(0),
                                  {dgamma.data, dbeta.data})) {
      finish_channel_result(context, 1, dgamma);
      return finish_channel_result(context, 2, dbeta);
    }
  }
  normalize_backward(context, 0);
}

// y from x and the statistics given, `variance`: a variance and not an inverse standard deviation.
void normalize_by(const KernelContext& context, bool variance, double epsilon, bool relu) {
  const TensorView &x = context.in(0), &y = context.out();
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    for_each(y.numel(), Normalize<T>{{image_of(x), 0},
                                     image_of(y),
                                     x.as<const T>(),
                                     y.as<T>(),
                                     values_of(context, 3, C(0)),
                                     values_of(context, 4, C(1)),
                                     values_of(context, 1, C(1)),
                                     values_of(context, 2, C(0)),
                                     variance,
                                     static_cast<C>(epsilon),
                                     relu});
  });
}

void batch_norm_apply(const KernelContext& context) {
  normalize_by(context, false, 0, context.attributes.as<ops::BatchNormApplyAttributes>().relu);
}
void batch_norm_inference(const KernelContext& context) {
  normalize_by(context, true, context.attributes.as<ops::BatchNormAttributes>().epsilon, false);
}

void group_norm(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::NormAttributes>();
  normalize_with_statistics(context, a.groups, a.epsilon);
}
void group_norm_backward(const KernelContext& context) {
  normalize_backward(context, context.attributes.as<ops::NormAttributes>().groups);
}

struct RunningAverage {
  Values<double> mean, variance, batch_mean, inverse_std;
  Target mean_out, variance_out;
  double momentum, epsilon, unbiased;

  FERRY_FUNCTOR void operator()(std::int64_t c) const {
    const double inverse = inverse_std[c];
    const double batch_variance = (1 / (inverse * inverse) - epsilon) * unbiased;
    mean_out.set(c, mean[c] + momentum * (batch_mean[c] - mean[c]));
    variance_out.set(c, variance[c] + momentum * (batch_variance - variance[c]));
  }
};

void running_average_(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::RunningAverageAttributes>();
  const double n = static_cast<double>(a.count);
  // One element has no unbiased variance; its biased one, zero, is what there is.
  for_each(context.in(0).shape[0],
           RunningAverage{values_of(context, 0, 0.0), values_of(context, 1, 0.0), values_of(context, 2, 0.0),
                          values_of(context, 3, 1.0), target_of(context, 0), target_of(context, 1), a.momentum,
                          a.epsilon, a.count > 1 ? n / (n - 1) : 1});
}

constexpr KernelEntry kEntries[] = {
    {"batch_norm", batch_norm},
    {"batch_norm_apply", batch_norm_apply},
    {"batch_norm_backward", batch_norm_backward},
    {"batch_norm_inference", batch_norm_inference},
    {"running_average_", running_average_},
    {"group_norm", group_norm},
    {"group_norm_backward", group_norm_backward},
};

}  // namespace

std::span<const KernelEntry> normalization_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
