#include "cli/status_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace tutti::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kRed = "\x1b[31m";
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kBold = "\x1b[1m";

template <class... Args>
std::string format(const char* text, Args... args) {
  char buffer[160];
  std::snprintf(buffer, sizeof(buffer), text, args...);
  return buffer;
}

std::string number(double value) {
  return format(value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
}

std::string bytes(double value) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string span_of(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds);
  if (s >= 86400) return format("%ld d %ld h", s / 86400, s / 3600 % 24);
  if (s >= 3600) return format("%ld h %ld min", s / 3600, s / 60 % 60);
  return s >= 60 ? format("%ld min %ld s", s / 60, s % 60) : format("%ld s", s);
}

// What a server says must not steer the terminal.
std::string plain(const std::string& text) {
  std::string out = text;
  std::replace_if(
      out.begin(), out.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

class View {
 public:
  View(const Json& now, const Json& before, const StatusStyle& style)
      : now_(now), before_(before), style_(style) {
    if (!before.is_null()) {
      seconds_ = (now.at("server").at("time_ms").get<double>() -
                  before.at("server").at("time_ms").get<double>()) /
                 1000;
    }
  }

  std::string text() {
    add_server();
    for (const Json& model : now_.at("models")) add_model(model);
    if (now_.at("models").empty()) text_ += "no models\n";
    return text_;
  }

 private:
  std::string coloured(const char* colour, const std::string& text) const {
    return style_.has_colours ? colour + text + "\x1b[0m" : text;
  }

  void add_server() {
    const Json& server = now_.at("server");
    const Json& machine = now_.at("machine");
    const bool is_ready = server.at("ready").get<bool>();
    text_ += coloured(kBold, "tutti " + plain(server.at("version").get<std::string>())) + "  " +
             (is_ready ? coloured(kGreen, "ready") : coloured(kYellow, "not ready")) + "  up " +
             span_of(server.at("uptime_seconds").get<double>()) +
             format("   cpu %.0f %%   memory ", 100 * machine.at("cpu_utilization").get<double>()) +
             bytes(machine.at("memory_used_bytes").get<double>()) + " of " +
             bytes(machine.at("memory_total_bytes").get<double>()) + "\n";
    for (const Json& gpu : now_.at("gpus")) add_gpu(gpu);
    text_ += "\n";
    text_ +=
        coloured(kFaint, format("%-28s %8s %-11s %6s %9s %9s %9s %9s %7s\n", "MODEL", "VERSION",
                                "STATE", "QUEUE", "REQ/S", "P50 MS", "P99 MS", "SERVED", "FAILED"));
  }

  void add_gpu(const Json& gpu) {
    text_ += plain(gpu.at("uuid").get<std::string>());
    if (!gpu.at("utilization").is_null()) {
      text_ += format("   %.0f %%", 100 * gpu.at("utilization").get<double>());
    }
    if (!gpu.at("memory_used_bytes").is_null() && !gpu.at("memory_total_bytes").is_null()) {
      text_ += "   memory " + bytes(gpu.at("memory_used_bytes").get<double>()) + " of " +
               bytes(gpu.at("memory_total_bytes").get<double>());
    }
    if (!gpu.at("power_watts").is_null()) {
      text_ += format("   %.0f W", gpu.at("power_watts").get<double>());
    }
    text_ += "\n";
  }

  const Json* earlier(const Json& model) const {
    if (before_.is_null()) return nullptr;
    for (const Json& one : before_.at("models")) {
      if (one.at("name") != model.at("name") || one.at("version") != model.at("version")) continue;
      // Loaded anew in between: its counters began again.
      const bool goes_on = one.contains("success") && one.at("success") <= model.at("success");
      return goes_on ? &one : nullptr;
    }
    return nullptr;
  }

  // The bound below which that share of the requests stayed, in ms; "-" without any.
  static std::string quantile(const Json& model, const Json* before, double share) {
    std::vector<std::pair<double, double>> counts;
    double all = 0;
    for (const Json& bucket : model.at("latency").at("buckets")) {
      double count = bucket.at(1).get<double>();
      if (before != nullptr) {
        for (const Json& old : before->at("latency").at("buckets")) {
          if (old.at(0) == bucket.at(0)) count -= old.at(1).get<double>();
        }
      }
      counts.emplace_back(bucket.at(0).get<double>(), count);
      all += count;
    }
    double seen = 0;
    for (const auto& [bound, count] : counts) {
      seen += count;
      if (count > 0 && seen >= share * all) return number(bound / 1000);
    }
    return "-";
  }

  void add_model(const Json& model) {
    const bool serves = model.contains("instances");
    std::string state = model.at("state").get<std::string>();
    if (state.empty()) state = "ON DISK";
    if (serves && !model.at("ready").get<bool>()) state = "REBUILDING";
    const std::string padded = format("%-11s", plain(state).c_str());
    const char* colour = state == "READY" ? kGreen : state == "UNAVAILABLE" ? kRed : kYellow;
    const Json* before = serves ? earlier(model) : nullptr;
    text_ += format("%-28.60s %8s ", plain(model.at("name").get<std::string>()).c_str(),
                    plain(model.at("version").get<std::string>()).c_str());
    text_ += coloured(colour, padded);
    if (serves) {
      const double done = model.at("success").get<double>();
      const std::string rate =
          before == nullptr || seconds_ <= 0
              ? "-"
              : number((done - before->at("success").get<double>()) / seconds_);
      text_ += format(" %6ld %9s %9s %9s %9.0f %7.0f", model.at("pending").get<long>(),
                      rate.c_str(), quantile(model, before, 0.5).c_str(),
                      quantile(model, before, 0.99).c_str(), done, model.at("fail").get<double>());
    }
    text_ += "\n";
    const std::string reason = plain(model.at("reason").get<std::string>());
    if (!reason.empty()) text_ += "  " + coloured(kRed, reason.substr(0, 400)) + "\n";
    if (serves) add_instances(model, before);
  }

  void add_instances(const Json& model, const Json* before) {
    const Json& instances = model.at("instances");
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const Json& ranks = instances[i].at("ranks");
      std::string head = format("  instance %zu", i);
      if (!instances[i].at("imbalance").is_null()) {
        head += format("   imbalance %.0f %%", 100 * instances[i].at("imbalance").get<double>());
      }
      if (const auto rebuilds = instances[i].at("rebuilds").get<long>(); rebuilds > 0) {
        head += coloured(kYellow, format("   rebuilt %ld times", rebuilds));
      }
      text_ += coloured(kFaint, head) + "\n";
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        const Json* old = nullptr;
        if (before != nullptr && i < before->at("instances").size() &&
            r < before->at("instances")[i].at("ranks").size()) {
          old = &before->at("instances")[i].at("ranks")[r];
        }
        add_rank(r, ranks[r], old);
      }
    }
  }

  // A bar of the time that the rank ran, the part in exchanges in another shade.
  void add_rank(std::size_t index, const Json& rank, const Json* before) {
    const auto share = [&](const char* field) {
      if (before == nullptr || seconds_ <= 0) return 0.0;
      const double us = rank.at(field).get<double>() - before->at(field).get<double>();
      return std::clamp(us / 1e6 / seconds_, 0.0, 1.0);
    };
    const double run = share("run_us");
    const double exchange = std::min(share("exchange_us"), run);
    const int width = std::clamp(style_.width - 60, 10, 60);
    const int filled = static_cast<int>(std::lround(run * width));
    const int moving = std::min(filled, static_cast<int>(std::lround(exchange * width)));
    const auto cells = [](int count, char c) {
      return std::string(static_cast<std::size_t>(std::max(count, 0)), c);
    };
    text_ += format("    rank %-3zu [", index) + coloured(kGreen, cells(filled - moving, '#')) +
             coloured(kYellow, cells(moving, '~')) + cells(width - filled, ' ') +
             format("] %3.0f %% busy, %3.0f %% of it exchanging   ", 100 * run,
                    run > 0 ? 100 * exchange / run : 0.0) +
             bytes(rank.at("memory_bytes").get<double>()) + "\n";
  }

  const Json& now_;
  const Json& before_;
  const StatusStyle style_;
  double seconds_ = 0;
  std::string text_;
};

}  // namespace

Result<std::string> render_status(const nlohmann::json& now, const nlohmann::json& before,
                                  const StatusStyle& style) {
  try {
    return View(now, before, style).text();
  } catch (const Json::exception& error) {
    return invalid_argument("the answer is no status of this version's: ", error.what());
  }
}

}  // namespace tutti::cli
