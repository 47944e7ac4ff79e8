#include "swap/gap_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "swap/copy_lane.h"

namespace ferry::swap {
namespace {

constexpr std::int64_t kTiny = 2'000;  // storages below this part of the budget stay

// Of gaps and ops, and schedules, for an effort of 1.
constexpr double kVisits = 5e7, kTrials = 4000;
constexpr std::int64_t kProgramVisits = 16;  // what a step of a program costs to make and to evaluate

constexpr OpIndex kAnyOp = std::numeric_limits<OpIndex>::max();

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

// `storage` is not used by the ops between `from` and `to`. While it is chosen, the ops from `first` up to, not
// including, `back` have its memory; its copies begin at `out` and `in`. After the last use there is nothing to bring
// back: `to` is where the storage is released. Values never change: the copy out of the first
// chosen gap of a storage serves the later ones, too.
struct Gap {
  StorageIndex storage;
  OpIndex from, to;
  Nanoseconds out_time{}, in_time{};
  bool returns = true;
  bool chosen = false, barred = false;
  std::int32_t copied_by = kNone;  // the first chosen gap of the storage, if that is another one before it
  OpIndex latest_first = kAnyOp, earliest_back = 0;  // whatever waits for it
  Nanoseconds out{}, in{};
  OpIndex first = 0, back = 0;

  Nanoseconds out_length() const { return copied_by == kNone ? out_time : Nanoseconds{0}; }
  Nanoseconds out_end() const { return out + out_length(); }
};

// How gaps are ranked.
struct Ranking {
  double part = 1;           // of the budget that is kept
  double benefit_power = 1;  // (bytes × ops that lack them)^this ÷ link time
  bool worst_first = true;   // the op that lacks most memory is helped first, not the earliest
  double noise = 0;          // ranks are multiplied by e^(up to ± this)
  double at_once = 1;        // part of the memory that an op lacks for which gaps are taken before copies are lined up
  double barred = 0;         // part of the gaps that are taken only where no other helps
};

class Scheduler {
 public:
  Scheduler(const Iteration& iteration, const Uses& uses, const GapOptions& options)
      : iteration_(iteration), uses_(uses), options_(options), random_(options.seed) {
    find_use();
    find_gaps();
    forget_waits();
  }

  // Chooses gaps until every op fits. False: one cannot, or the effort is spent.
  bool run(const Ranking& ranking) {
    ++trials_;
    ranking_ = ranking;
    const auto budget = static_cast<std::int64_t>(static_cast<double>(options_.budget.count) * ranking.part);
    unrelieved_ = use_;
    for (std::int64_t& bytes : unrelieved_) bytes -= budget;
    for (Gap& gap : gaps_) gap.barred = ranking.barred > 0 && uniform() < ranking.barred;
    reschedule();
    for (;;) {
      const auto next = ranking.worst_first
                            ? std::ranges::max_element(excess_)
                            : std::ranges::find_if(excess_, [](std::int64_t bytes) { return bytes > 0; });
      if (next == excess_.end() || *next <= 0) return true;
      if (spent() >= 1) return false;
      const auto op = static_cast<OpIndex>(next - excess_.begin());
      if (!relieve(op, false) && !relieve(op, true)) return false;
    }
  }

  void clear() {
    for (Gap& gap : gaps_) forget(gap);
  }
  const std::vector<Gap>& gaps() const { return gaps_; }

  // When the ops begin, and the last ends, by which copies are timed from now on. Waiting for copies makes time for
  // others.
  void time_by(const std::vector<Nanoseconds>& starts) { starts_ = starts; }
  void forget_waits() {
    starts_.clear();
    for (OpIndex op = 0; op <= uses_.ops(); ++op) starts_.push_back(uses_.start(op));
  }

  // Starts from these choices, some of them changed.
  void start_near(const std::vector<Gap>& gaps) {
    gaps_ = gaps;
    const std::vector<Gap*> taken = chosen();
    for (std::uint64_t changes = 1 + random_() % 4; changes > 0 && !taken.empty(); --changes) {
      Gap& gap = *taken[random_() % taken.size()];
      switch (random_() % 5) {
        case 0:
        case 1:
          forget(gap);
          break;
        case 2:
          gap.earliest_back = 0;
          break;
        case 3:
          gap.latest_first = kAnyOp;
          break;
        default:
          gaps_[random_() % gaps_.size()].chosen = true;
      }
    }
  }

  // Part of the effort.
  double spent() const {
    return std::max(static_cast<double>(visits_) / kVisits, static_cast<double>(trials_) / kTrials) / options_.effort;
  }
  void spend(std::int64_t visits) { visits_ += visits; }
  std::int64_t trials() const { return trials_; }
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Program program() {
    std::vector<Program> before(index(uses_.ops()) + 1);
    std::vector<Gap*> gaps = chosen();
    std::ranges::stable_sort(gaps, {}, [](const Gap* gap) { return gap->out; });
    for (const Gap* gap : gaps) before[index(gap->first)].push_back({Step::Kind::leave, gap->storage});
    std::ranges::stable_sort(gaps, {}, [](const Gap* gap) { return gap->in; });
    for (const Gap* gap : gaps)
      if (gap->returns) before[index(gap->back)].push_back({Step::Kind::bring_in, gap->storage});
    std::ranges::stable_sort(gaps, {}, [](const Gap* gap) { return gap->out; });
    for (const Gap* gap : gaps) {
      const OpIndex op = first_op_from(gap->out);  // leaving starts the copy that has not started
      if (gap->copied_by == kNone && op < gap->first) before[index(op)].push_back({Step::Kind::copy_out, gap->storage});
    }
    return merged(before);
  }

 private:
  static void forget(Gap& gap) {
    gap.chosen = false;
    gap.latest_first = kAnyOp;
    gap.earliest_back = 0;
  }

  Nanoseconds start(OpIndex op) const { return starts_[index(std::min(op, uses_.ops()))]; }

  // Bytes during each op without a budget.
  void find_use() {
    std::int64_t used = 0;
    const auto made_by = [&](TensorIndex t) {
      const Storage& storage = iteration_.storages[index(iteration_.tensors[index(t)].storage)];
      return storage.root == t ? storage.size.count : 0;
    };
    for (const Event& event : iteration_.events) {
      switch (event.kind) {
        case Event::Kind::create:
          used += made_by(event.index);
          break;
        case Event::Kind::run:
          for (const TensorIndex t : iteration_.ops[index(event.index)].outputs) used += made_by(t);
          use_.push_back(used);
          break;
        case Event::Kind::release:
          if (!iteration_.storages[index(event.index)].pinned)
            used -= iteration_.storages[index(event.index)].size.count;
          break;
      }
    }
  }

  void find_gaps() {
    std::vector<OpIndex> created(iteration_.storages.size(), kNone);  // the last op before it was there
    std::vector<OpIndex> released(iteration_.storages.size(), uses_.ops());
    OpIndex next_op = 0;
    for (const Event& event : iteration_.events) {
      if (event.kind == Event::Kind::run) next_op = event.index + 1;
      if (event.kind == Event::Kind::create)
        created[index(iteration_.tensors[index(event.index)].storage)] = next_op - 1;
      if (event.kind == Event::Kind::release) released[index(event.index)] = next_op;
    }
    for (std::size_t s = 0; s < iteration_.storages.size(); ++s) {
      const auto storage = static_cast<StorageIndex>(s);
      if (iteration_.storages[s].pinned || iteration_.storages[s].size.count * kTiny < options_.budget.count) continue;
      const OpIndex made = uses_.producer(storage);
      for (OpIndex from = made == kNone ? created[s] : made; from < uses_.ops();) {
        const OpIndex next = uses_.next(storage, from + 1);
        const bool returns = next != uses_.beyond();
        const OpIndex to = returns ? next : released[s];
        const Bytes size = iteration_.storages[s].size;
        if (to > from + 1)
          gaps_.push_back({.storage = storage,
                           .from = from,
                           .to = to,
                           .out_time = options_.link.out_time(size),
                           .in_time = returns ? options_.link.in_time(size) : Nanoseconds{0},
                           .returns = returns});
        from = next;
      }
    }
  }

  // The first op that starts at `time` or later.
  OpIndex first_op_from(Nanoseconds time) const {
    OpIndex low = 0, high = uses_.ops();
    while (low < high) {
      const OpIndex middle = low + (high - low) / 2;
      if (start(middle) >= time) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  std::vector<Gap*> chosen() {
    std::vector<Gap*> result;
    for (Gap& gap : gaps_)
      if (gap.chosen) result.push_back(&gap);
    return result;
  }

  // Copies start between ops.
  void find_range(Gap& gap) const {
    gap.first = std::min(first_op_from(gap.out_end()), gap.latest_first);
    gap.back = first_op_from(gap.in);
    if (gap.back > 0 && start(gap.back) > gap.in) --gap.back;
    gap.back = std::max(gap.back, gap.earliest_back);
  }

  // Gaps of a storage follow each other in gaps_.
  void find_copies() {
    std::int32_t first = kNone;
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      if (first != kNone && gaps_[index(first)].storage != gaps_[i].storage) first = kNone;
      gaps_[i].copied_by = first;
      if (first == kNone && gaps_[i].chosen) first = static_cast<std::int32_t>(i);
    }
  }

  // All chosen gaps' copies, out as early and in as late as can be; then what is still over the budget.
  void reschedule() {
    visits_ += std::ssize(gaps_) + std::ssize(excess_);
    find_copies();
    const std::vector<Gap*> gaps = chosen();
    std::vector<CopyJob> jobs(gaps.size());
    for (std::size_t i = 0; i < gaps.size(); ++i)
      jobs[i] = {start(gaps[i]->from + 1), start(gaps[i]->latest_first), gaps[i]->out_length()};
    line_up(jobs);
    for (std::size_t i = 0; i < gaps.size(); ++i) gaps[i]->out = jobs[i].begin;
    for (Gap* gap : gaps)
      if (gap->copied_by != kNone) gap->out = earliest_out(*gap);
    // The same with time running backwards.
    for (std::size_t i = 0; i < gaps.size(); ++i)
      jobs[i] = {-start(gaps[i]->to), -start(gaps[i]->earliest_back), gaps[i]->in_time};
    line_up(jobs);
    for (std::size_t i = 0; i < gaps.size(); ++i) gaps[i]->in = -(jobs[i].begin + jobs[i].length);
    changes_.assign(unrelieved_.size() + 1, 0);
    for (Gap* gap : gaps) {
      find_range(*gap);
      if (gap->first >= gap->back) continue;
      changes_[index(gap->first)] -= size_of(*gap);
      changes_[index(gap->back)] += size_of(*gap);
    }
    excess_ = unrelieved_;
    std::int64_t away = 0;
    for (std::size_t o = 0; o < excess_.size(); ++o) excess_[o] += away += changes_[o];
  }

  Nanoseconds earliest_out(const Gap& gap) const {
    const Nanoseconds idle = start(gap.from + 1);
    return gap.copied_by == kNone ? idle : std::max(idle, gaps_[index(gap.copied_by)].out_end());
  }

  // When the copies end, and begin, that would go before those of a gap that has to relieve `op`.
  std::pair<Nanoseconds, Nanoseconds> queues(OpIndex op) const {
    Nanoseconds out = Nanoseconds::min(), in = Nanoseconds::max();
    for (const Gap& gap : gaps_) {
      if (!gap.chosen) continue;
      if (gap.latest_first <= op && gap.copied_by == kNone) out = std::max(out, gap.out_end());
      if (gap.earliest_back > op) in = std::min(in, gap.in);
    }
    return {out, in};
  }

  std::int64_t size_of(const Gap& gap) const { return iteration_.storages[index(gap.storage)].size.count; }

  double score(const Gap& gap) {
    visits_ += gap.back - gap.first;
    double relief = 0;
    for (OpIndex o = gap.first; o < gap.back; ++o)
      relief += static_cast<double>(std::clamp<std::int64_t>(excess_[index(o)], 0, size_of(gap)));
    return std::pow(relief, ranking_.benefit_power) / static_cast<double>((gap.out_length() + gap.in_time).count() + 1);
  }

  // A gap that gives memory to `op`.
  struct Relief {
    Gap* gap = nullptr;
    bool waits = false;  // somebody has to wait for its copies
    double rank = 0;     // of those that wait, the shorter time the larger
    bool operator<(const Relief& other) const { return waits != other.waits ? waits : rank < other.rank; }
  };

  void find_reliefs(OpIndex op, bool barred) {
    reliefs_.clear();
    visits_ += std::ssize(gaps_);
    const auto [out, in] = queues(op);
    for (Gap& gap : gaps_) {
      const bool covers_op = gap.from < op && op < gap.to;
      if (gap.barred != barred || !covers_op || (gap.chosen && gap.first <= op && op < gap.back)) continue;
      if (!gap.chosen) {
        gap.out = gap.copied_by == kNone ? std::max(earliest_out(gap), out) : earliest_out(gap);
        gap.in = std::min(start(gap.to), in) - gap.in_time;
        find_range(gap);
      }
      const auto wait = static_cast<double>(
          (std::max(gap.out_end() - start(op), Nanoseconds{0}) + std::max(start(op + 1) - gap.in, Nanoseconds{0}))
              .count());
      const bool waits = gap.chosen || wait > 0;
      const double chance = ranking_.noise == 0 ? 1 : std::exp(ranking_.noise * (2 * uniform() - 1));
      reliefs_.push_back({&gap, waits, (waits ? -wait : score(gap)) * chance});
    }
  }

  // Takes the best gaps that give memory to `op`. False: there is none of those that are barred, or not.
  bool relieve(OpIndex op, bool barred) {
    find_reliefs(op, barred);
    if (reliefs_.empty()) return false;
    const auto wanted = static_cast<std::int64_t>(static_cast<double>(excess_[index(op)]) * ranking_.at_once);
    std::make_heap(reliefs_.begin(), reliefs_.end());
    std::int64_t taken = 0;
    do {
      std::pop_heap(reliefs_.begin(), reliefs_.end());
      Gap& gap = *reliefs_.back().gap;
      reliefs_.pop_back();
      gap.chosen = true;
      gap.latest_first = std::min(gap.latest_first, op);
      gap.earliest_back = std::max(gap.earliest_back, op + 1);
      taken += size_of(gap);
    } while (taken < wanted && !reliefs_.empty());
    reschedule();
    return true;
  }

  Program merged(const std::vector<Program>& before) const {
    Program program;
    for (const Event& event : iteration_.events) {
      switch (event.kind) {
        case Event::Kind::create:
          program.push_back({Step::Kind::create, event.index});
          break;
        case Event::Kind::run:
          program.insert(program.end(), before[index(event.index)].begin(), before[index(event.index)].end());
          program.push_back({Step::Kind::run, event.index});
          break;
        case Event::Kind::release:
          if (!iteration_.storages[index(event.index)].pinned) program.push_back({Step::Kind::drop, event.index});
          break;
      }
    }
    program.insert(program.end(), before.back().begin(), before.back().end());
    return program;
  }

  const Iteration& iteration_;
  const Uses& uses_;
  const GapOptions& options_;
  std::mt19937_64 random_;
  Ranking ranking_;
  std::vector<Nanoseconds> starts_;                      // by op, and the end
  std::vector<std::int64_t> use_, unrelieved_, excess_;  // by op; bytes over the budget without gaps, and now
  std::vector<std::int64_t> changes_;
  std::vector<Relief> reliefs_;
  std::int64_t visits_ = 0, trials_ = 0;
  std::vector<Gap> gaps_;
};

}  // namespace

GapSchedule schedule_gaps(const Iteration& iteration, const Uses& uses, const GapOptions& options) {
  Scheduler scheduler(iteration, uses, options);
  GapSchedule best;
  std::vector<Gap> gaps;                            // what changes start from,
  std::vector<Nanoseconds> starts, current_starts;  // and when its ops began
  Nanoseconds current = Nanoseconds::max();
  // Takes a schedule that is no slower than the one before by more than this part.
  const auto attempt = [&](const Ranking& ranking, double worse) {
    if (!scheduler.run(ranking)) return;
    Program program = scheduler.program();
    scheduler.spend(kProgramVisits * std::ssize(program));
    Cost cost = evaluate(iteration, program, options.budget, options.link, &starts);
    if (!cost.feasible) return;
    if (static_cast<double>(cost.time.count()) <= static_cast<double>(current.count()) * (1 + worse)) {
      current = cost.time;
      gaps = scheduler.gaps();
      current_starts = starts;
    }
    if (!best.cost.feasible || cost.time < best.cost.time) {
      best.program = std::move(program);
      best.cost = std::move(cost);
    }
  };
  for (const double part : {1.0, 0.97, 0.94}) {
    for (const double power : {1.0, 0.5}) {
      for (const bool worst_first : {true, false}) {
        scheduler.clear();
        attempt({.part = part, .benefit_power = power, .worst_first = worst_first}, 0);
      }
    }
  }
  scheduler.clear();
  attempt({.at_once = 0}, 0);
  const auto nothing_waits = [&] { return best.cost.feasible && best.cost.time <= uses.start(uses.ops()); };
  while (scheduler.spent() < 1 && !nothing_waits()) {
    const bool is_new = !best.cost.feasible || scheduler.trials() % 16 == 0;
    is_new ? scheduler.clear() : scheduler.start_near(gaps);
    if (current_starts.empty() || scheduler.uniform() < 0.3) {
      scheduler.forget_waits();
    } else {
      scheduler.time_by(current_starts);
    }
    const double worse = 0.01 * (1 - scheduler.spent()) * scheduler.uniform();  // drawn before the ranking
    attempt({.part = scheduler.uniform() < 0.5 ? 1 : 1 - 0.08 * scheduler.uniform() * scheduler.uniform(),
             .benefit_power = 1.3 * scheduler.uniform(),
             .worst_first = scheduler.uniform() < 0.5,
             .noise = 2 * scheduler.uniform(),
             .at_once = scheduler.uniform() < 0.5 ? 1 : scheduler.uniform(),
             .barred = scheduler.uniform() < 0.5 ? 0 : 0.5 * scheduler.uniform()},
            worse);
  }
  best.trials = static_cast<int>(scheduler.trials());
  return best;
}

}  // namespace ferry::swap
