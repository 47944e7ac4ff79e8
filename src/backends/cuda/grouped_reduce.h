// Reducing groups of elements in two steps: pieces of each group, then the pieces in their order. How groups are cut
// depends on their number and length alone, so that results do not depend on the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/backends/cuda/for_each.h"

namespace ferry::cuda_backend {

// Who adds up a piece: a team, where a group's elements are neighbours in memory, or one thread, where groups are.
enum class Neighbours { elements, groups };

constexpr std::int64_t kTeamPiece = 4096, kThreadPiece = 64;      // elements at least
constexpr std::int64_t kTeams = 2048, kReducingThreads = 262144;  // pieces that keep a large GPU busy

struct Pieces {
  std::int64_t groups, length, count, size;  // count pieces of `size` elements a group

  Pieces(std::int64_t group_count, std::int64_t group_length, Neighbours neighbours)
      : groups(group_count), length(group_length) {
    const bool teams = neighbours == Neighbours::elements;
    const std::int64_t wanted = (teams ? kTeams : kReducingThreads) / std::max<std::int64_t>(1, groups);
    const std::int64_t most = (length + (teams ? kTeamPiece : kThreadPiece) - 1) / (teams ? kTeamPiece : kThreadPiece);
    count = std::max<std::int64_t>(1, std::min(wanted, most));
    size = (length + count - 1) / count;
  }
};

template <class Body>
struct TeamPieces {
  using Acc = typename Body::Acc;
  Body body;
  Pieces pieces;
  Acc* parts;

  FERRY_FUNCTOR void operator()(std::int64_t i, const Team& team) const {
    const std::int64_t group = i / pieces.count, begin = i % pieces.count * pieces.size;
    const std::int64_t end = begin + pieces.size < pieces.length ? begin + pieces.size : pieces.length;
    const auto cursor = body.start(group);
    Acc acc = body.identity();
    for (std::int64_t k = begin + team.rank; k < end; k += team.size) body.add(acc, cursor, k);
    acc = team.all(acc, Merge{body});
    if (team.rank != 0) return;
    if (pieces.count == 1) {
      body.finish(group, acc);
    } else {
      parts[i] = acc;
    }
  }

 private:
  struct Merge {
    const Body& body;
    FERRY_FUNCTOR Acc operator()(const Acc& a, const Acc& b) const { return body.merge(a, b); }
  };
};

template <class Body>
struct ThreadPieces {
  using Acc = typename Body::Acc;
  Body body;
  Pieces pieces;
  Acc* parts;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t group = i % pieces.groups, begin = i / pieces.groups * pieces.size;
    const std::int64_t end = begin + pieces.size < pieces.length ? begin + pieces.size : pieces.length;
    const auto cursor = body.start(group);
    Acc acc = body.identity();
    for (std::int64_t k = begin; k < end; ++k) body.add(acc, cursor, k);
    if (pieces.count == 1) {
      body.finish(group, acc);
    } else {
      parts[i] = acc;
    }
  }
};

template <class Body>
struct JoinPieces {
  using Acc = typename Body::Acc;
  Body body;
  std::int64_t count, group_step, piece_step;
  const Acc* parts;

  FERRY_FUNCTOR void operator()(std::int64_t group) const {
    Acc acc = parts[group * group_step];
    for (std::int64_t i = 1; i < count; ++i) acc = body.merge(acc, parts[group * group_step + i * piece_step]);
    body.finish(group, acc);
  }
};

// Body: a functor with
//   Acc                       what a part of a group is reduced to; trivially copyable, a multiple of 4 bytes
//   Acc identity() const
//   start(group) const        what add needs to know of the group
//   add(acc, started, k)      takes the group's k-th element in
//   merge(a, b) → Acc         a's elements come before b's, but for the threads of a team
//   finish(group, acc) const  writes the result
template <class Body>
void grouped_reduce(std::int64_t groups, std::int64_t length, Neighbours neighbours, const Body& body) {
  using Acc = typename Body::Acc;
  if (groups <= 0) return;
  const Pieces pieces(groups, length, neighbours);
  const bool teams = neighbours == Neighbours::elements;
  Acc* const parts = pieces.count == 1 ? nullptr : LaunchScope::current().scratch<Acc>(groups * pieces.count);
  if (teams) {
    for_each_row(groups * pieces.count, pieces.size, TeamPieces<Body>{body, pieces, parts});
  } else {
    for_each<1>(groups * pieces.count, ThreadPieces<Body>{body, pieces, parts});
  }
  if (pieces.count == 1) return;
  for_each<1>(groups, JoinPieces<Body>{body, pieces.count, teams ? pieces.count : 1, teams ? 1 : groups, parts});
}

// Two sums at once.
struct Sums {
  double first = 0, second = 0;

  FERRY_FUNCTOR static Sums add(const Sums& a, const Sums& b) { return {a.first + b.first, a.second + b.second}; }
};

}  // namespace ferry::cuda_backend
