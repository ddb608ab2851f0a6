#include "cli/status.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "cli/http_get.h"
#include "cli/model_options.h"
#include "cli/status_view.h"

namespace tutti::cli {
namespace {

struct StatusCommand {
  std::string url = "127.0.0.1:8002";
  double interval_secs = 1;
  bool is_once = false;
  bool is_json = false;
};

constexpr std::chrono::seconds kPatience{5};

Result<nlohmann::json> look(const StatusCommand& command, std::string* text) {
  TUTTI_ASSIGN_OR_RETURN(*text, http_get(command.url, "/status.json", kPatience));
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_discarded()) return unavailable("'", command.url, "' answers what is no JSON");
  return json;
}

StatusStyle terminal_style() {
  StatusStyle style;
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0) return style;
  style.has_colours = std::getenv("NO_COLOR") == nullptr;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

int run_status(const StatusCommand& command) {
  std::string text;
  auto now = look(command, &text);
  if (!now.ok()) return report_error("status", now.status());
  if (command.is_json) {
    std::cout << text << '\n';
    return 0;
  }
  const std::chrono::duration<double> interval(command.interval_secs);
  nlohmann::json before;
  while (true) {
    // Rates need two looks.
    before = *std::move(now);
    std::this_thread::sleep_for(interval);
    now = look(command, &text);
    if (!now.ok()) return report_error("status", now.status());
    const auto view = render_status(*now, before, terminal_style());
    if (!view.ok()) return report_error("status", view.status());
    // Over what stands there, so that nothing flickers.
    if (!command.is_once) std::cout << "\x1b[H\x1b[2J";
    std::cout << *view << std::flush;
    if (command.is_once) return 0;
  }
}

}  // namespace

std::function<int()> add_status(CLI::App& command) {
  auto options = std::make_shared<StatusCommand>();
  command.add_option("--url", options->url, "HOST:PORT of the server's metrics port")
      ->capture_default_str();
  command.add_option("--interval-secs", options->interval_secs, "Between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command.add_flag("--once", options->is_once, "Print once, over one interval, and exit");
  command.add_flag("--json", options->is_json, "Print the server's document and exit");
  return [options] { return run_status(*options); };
}

}  // namespace tutti::cli
