#include "profiler/analysis_report/gate.h"

#include <algorithm>
#include <charconv>

#include "profiler/format.h"
#include "src/base/check.h"

namespace ferry::profiler::analysis_report {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

bool matches_whole(std::string_view pattern, std::string_view text) {
  // The text after the last star is tried further on whenever it does not fit.
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool is_meant(const Finding& finding, std::string_view pattern) {
  return matches(pattern, finding.op) || matches(pattern, finding.frame) ||
         std::ranges::any_of(finding.chain, [&](const std::string& op) { return matches(pattern, op); });
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML has no other control characters.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string row_text(const AnalysisReport& report, const Finding& finding) {
  return fmt::format("{}: {} {} {}, host blocked for {} ms ({})", place_text(finding), finding.rule,
                     counted(finding.calls, "copy", "copies"), direction_text(finding.direction),
                     milliseconds(finding.blocked), short_percent(report.share(finding.blocked)));
}

}  // namespace

std::vector<Allowance> parse_allowances(std::string_view text, std::string_view name) {
  std::vector<Allowance> allowances;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (whole.empty() || whole.front() == '#') continue;
    // Names of regions hold '#' themselves: the reason's has a space before it.
    const std::size_t mark = std::min(whole.find(" #"), whole.find("\t#"));
    const std::string_view pattern = trimmed(whole.substr(0, mark));
    const std::string_view reason =
        mark == std::string_view::npos ? std::string_view{} : trimmed(whole.substr(mark + 2));
    FERRY_CHECK(!pattern.empty() && !reason.empty(), ParseError,
                "{}: line {}: '{}' has no reason; write \"PATTERN  # reason\"", name, line, whole);
    allowances.push_back({std::string(pattern), std::string(reason), line, false});
  }
  return allowances;
}

bool matches(std::string_view pattern, std::string_view text) {
  if (text.empty()) return false;
  if (matches_whole(pattern, text)) return true;
  for (std::size_t at = text.find('/'); at != std::string_view::npos; at = text.find('/', at + 1)) {
    if (matches_whole(pattern, text.substr(at + 1))) return true;
  }
  return false;
}

void allow(AnalysisReport& report, std::vector<Allowance>& allowances) {
  for (Finding& finding : report.hotspots) {
    for (Allowance& allowance : allowances) {
      if (!is_meant(finding, allowance.pattern)) continue;
      allowance.used = true;
      if (finding.allowed.empty()) finding.allowed = allowance.reason;
    }
  }
  for (const Allowance& allowance : allowances) {
    if (!allowance.used)
      report.warnings.push_back(
          fmt::format("line {} of the allowed copies ('{}') matches none", allowance.line, allowance.pattern));
  }
}

double parse_share(std::string_view text) {
  std::string_view digits = text;
  const bool percent = digits.ends_with('%');
  if (percent) digits.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  FERRY_CHECK(error == std::errc{} && end == digits.data() + digits.size() && value >= 0, InvalidArgument,
              "'{}' is no share; write 5% or 0.05", text);
  return percent ? value / 100 : value;
}

Verdict judge(const AnalysisReport& report, const Limits& limits) {
  Verdict verdict;
  for (const Finding& finding : report.hotspots) {
    if (!finding.allowed.empty()) continue;
    verdict.sync_copies += finding.calls;
    verdict.blocked += finding.blocked;
  }
  verdict.blocked_share = report.share(verdict.blocked);
  if (limits.max_sync && verdict.sync_copies > *limits.max_sync) {
    verdict.violations.push_back(fmt::format("{}, more than --max-sync {}",
                                             counted(verdict.sync_copies, "synchronous copy", "synchronous copies"),
                                             *limits.max_sync));
  }
  if (limits.max_blocked && verdict.blocked_share > *limits.max_blocked) {
    verdict.violations.push_back(
        fmt::format("synchronous copies block the host for {} of the span, more than "
                    "--max-blocked {}",
                    short_percent(verdict.blocked_share), short_percent(*limits.max_blocked)));
  }
  return verdict;
}

std::string verdict_text(const AnalysisReport& report, const Verdict& verdict) {
  std::string text;
  for (const std::string& violation : verdict.violations)
    text += fmt::format("ferry: {}: {}\n", report.source, violation);
  for (const Finding& finding : report.hotspots) {
    if (finding.allowed.empty()) text += "  " + row_text(report, finding) + '\n';
  }
  return text;
}

std::string report_junit(const AnalysisReport& report, const Limits& limits) {
  const Verdict verdict = judge(report, limits);
  std::string cases;
  int count = 0, failures = 0;
  const auto add = [&](std::string_view name, std::string_view failure, std::string_view output) {
    ++count;
    cases += fmt::format("    <testcase classname=\"ferry.analyze\" name=\"{}\">\n", escaped(name));
    if (!failure.empty()) {
      ++failures;
      cases += fmt::format("      <failure message=\"{}\">{}</failure>\n", escaped(failure), escaped(output));
    } else if (!output.empty()) {
      cases += fmt::format("      <system-out>{}</system-out>\n", escaped(output));
    }
    cases += "    </testcase>\n";
  };
  const auto limit = [&](bool is_set, const char* name) {
    if (!is_set) return;
    const auto violated = std::ranges::find_if(
        verdict.violations, [&](const std::string& each) { return each.find(name) != std::string::npos; });
    add(name, violated == verdict.violations.end() ? std::string_view{} : std::string_view(*violated), "");
  };
  limit(limits.max_sync.has_value(), "--max-sync");
  limit(limits.max_blocked.has_value(), "--max-blocked");
  for (const Finding& finding : report.hotspots) {
    const std::string row = row_text(report, finding);
    if (!finding.allowed.empty()) {
      add(place_text(finding), "", row + "\nallowed: " + finding.allowed);
    } else {
      add(place_text(finding), verdict.passed() ? std::string_view{} : std::string_view(row), row + '\n' + finding.fix);
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"ferry analyze {}\" tests=\"{}\" "
      "failures=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      escaped(report.source), count, failures, cases);
}

}  // namespace ferry::profiler::analysis_report
