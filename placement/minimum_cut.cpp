#include "placement/minimum_cut.h"

#include <algorithm>
#include <limits>

namespace ferry::placement {
namespace {

using Capacity = std::int64_t;
constexpr Capacity kNever = std::numeric_limits<Capacity>::max() / 4;

class FlowGraph {
 public:
  explicit FlowGraph(std::size_t vertices) : edges_of_(vertices), level_(vertices), next_(vertices) {}

  std::size_t add_vertex() {
    edges_of_.emplace_back();
    level_.push_back(0);
    next_.push_back(0);
    return edges_of_.size() - 1;
  }
  // Cut when `from` is on the source's side and `to` on the sink's.
  void add_edge(std::size_t from, std::size_t to, Capacity capacity) {
    if (capacity == 0) return;
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  void saturate(std::size_t source, std::size_t sink) {
    while (find_levels(source, sink)) {
      std::ranges::fill(next_, 0);
      while (push(source, sink)) {
      }
    }
  }
  // Vertices from which the sink cannot be reached any more: the largest side of the source.
  std::vector<char> side_of_source(std::size_t sink) const {
    std::vector<char> reaches(edges_of_.size(), 0);
    std::vector<std::size_t> open{sink};
    reaches[sink] = 1;
    while (!open.empty()) {
      const std::size_t vertex = open.back();
      open.pop_back();
      for (const std::size_t edge : edges_of_[vertex]) {
        const std::size_t other = edges_[edge].to;
        if (reaches[other] != 0 || edges_[edge ^ 1].left == 0) continue;
        reaches[other] = 1;
        open.push_back(other);
      }
    }
    for (char& side : reaches) side = side == 0 ? 1 : 0;
    return reaches;
  }

 private:
  struct Edge {
    std::size_t to;
    Capacity left;
  };

  bool find_levels(std::size_t source, std::size_t sink) {
    constexpr int kUnseen = -1;
    std::ranges::fill(level_, kUnseen);
    level_[source] = 0;
    std::vector<std::size_t> queue{source};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const std::size_t edge : edges_of_[queue[i]]) {
        const std::size_t other = edges_[edge].to;
        if (edges_[edge].left == 0 || level_[other] != kUnseen) continue;
        level_[other] = level_[queue[i]] + 1;
        queue.push_back(other);
      }
    }
    return level_[sink] != kUnseen;
  }

  // One path from source to sink along the levels. Its edges are kept in a list of their own: chains of ops are long.
  bool push(std::size_t source, std::size_t sink) {
    std::vector<std::size_t> path;
    std::size_t vertex = source;
    while (vertex != sink) {
      std::size_t& next = next_[vertex];
      const std::vector<std::size_t>& edges = edges_of_[vertex];
      while (next < edges.size() &&
             (edges_[edges[next]].left == 0 || level_[edges_[edges[next]].to] != level_[vertex] + 1)) {
        ++next;
      }
      if (next < edges.size()) {
        path.push_back(edges[next]);
        vertex = edges_[edges[next]].to;
        continue;
      }
      if (path.empty()) return false;
      vertex = edges_[path.back() ^ 1].to;
      path.pop_back();
      ++next_[vertex];
    }
    Capacity flow = kNever;
    for (const std::size_t edge : path) flow = std::min(flow, edges_[edge].left);
    for (const std::size_t edge : path) {
      edges_[edge].left -= flow;
      edges_[edge ^ 1].left += flow;
    }
    return true;
  }

  std::vector<Edge> edges_;  // an edge and its reverse stand next to each other
  std::vector<std::vector<std::size_t>> edges_of_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

DeviceType place_of(std::int32_t node, const std::vector<DeviceType>& places) {
  if (node == CutProblem::kCpu) return DeviceType::cpu;
  if (node == CutProblem::kGpu) return DeviceType::gpu;
  return places[static_cast<std::size_t>(node)];
}

}  // namespace

Nanoseconds cost_of(const CutProblem& problem, const std::vector<DeviceType>& places) {
  Nanoseconds cost{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    cost += places[i] == DeviceType::cpu ? problem.nodes[i].cpu : problem.nodes[i].gpu;
  }
  for (const CutProblem::Value& value : problem.values) {
    const DeviceType made = place_of(value.maker, places);
    const bool copied =
        std::ranges::any_of(value.readers, [&](std::int32_t reader) { return place_of(reader, places) != made; });
    if (copied) cost += made == DeviceType::cpu ? value.to_gpu : value.to_cpu;
  }
  return cost;
}

Cut minimum_cut(const CutProblem& problem) {
  const std::size_t source = problem.nodes.size(), sink = source + 1;
  FlowGraph graph(sink + 1);
  const auto vertex_of = [&](std::int32_t node) {
    if (node == CutProblem::kGpu) return source;
    return node == CutProblem::kCpu ? sink : static_cast<std::size_t>(node);
  };
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const CutProblem::Node& node = problem.nodes[i];
    graph.add_edge(source, i, node.may_be_cpu ? node.cpu.count() : kNever);
    graph.add_edge(i, sink, node.may_be_gpu ? node.gpu.count() : kNever);
  }
  for (const CutProblem::Value& value : problem.values) {
    const std::size_t maker = vertex_of(value.maker);
    const std::size_t on_cpu = graph.add_vertex(), on_gpu = graph.add_vertex();
    graph.add_edge(maker, on_cpu, value.to_cpu.count());
    graph.add_edge(on_gpu, maker, value.to_gpu.count());
    for (const std::int32_t reader : value.readers) {
      const std::size_t vertex = vertex_of(reader);
      if (vertex == maker) continue;
      // A reader on a side takes the value's vertex with it.
      graph.add_edge(on_cpu, vertex, kNever);
      graph.add_edge(vertex, on_gpu, kNever);
    }
  }
  graph.saturate(source, sink);
  const std::vector<char> on_source = graph.side_of_source(sink);
  Cut cut;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    cut.places.push_back(on_source[i] != 0 ? DeviceType::gpu : DeviceType::cpu);
  }
  cut.cost = cost_of(problem, cut.places);
  return cut;
}

}  // namespace ferry::placement
