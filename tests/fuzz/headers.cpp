// Values of headers, paths and flags of the server, each with the reader that the first letter
// names: trace context, trace settings, restrictions, routes, content codings, base64.
#include <string>
#include <vector>

#include "base/utf8.h"
#include "fuzz/surface.h"
#include "server/http/compression.h"
#include "server/http/routes.h"
#include "server/http/text.h"
#include "server/json/write.h"
#include "server/names.h"
#include "server/restrictions.h"
#include "server/trace/context.h"
#include "server/trace/settings.h"

namespace tutti::fuzz {
namespace {

using namespace tutti::server;  // NOLINT: the whole file is about it

// `traceparent` up to the line's end, then `tracestate`.
void read_context(std::string_view text) {
  const auto lines = split(text, '\n');
  const auto context = parse_trace_context(lines[0], lines.size() > 1 ? lines[1] : "");
  require(!context || context->trace_id != TraceId{}, "a trace has an id");
}

void read_trace_settings(std::string_view text) {
  std::vector<std::string> configs;
  for (const std::string_view line : split(text, '\n')) configs.emplace_back(line);
  const auto options = parse_trace_options(configs);
  if (check_result(options)) {
    trace_values(options->mode, options->settings, options->otlp);
    otlp_target(options->otlp);
  }
  TraceChanges changes;
  for (const std::string& config : configs) {
    const std::size_t equals = std::min(config.find('='), config.size());
    changes[config.substr(0, equals)].push_back(config.substr(std::min(equals + 1, config.size())));
  }
  TraceSettings settings;
  check_error(apply_trace_changes(changes, &settings));
}

void read_restrictions(std::string_view text) {
  Restrictions restrictions;
  for (const std::string_view line : split(text, '\n')) check_error(restrictions.add(line));
}

void read_path(std::string_view text) {
  PathNames names;
  find_route(text, &names);
  percent_decoded(text);
  check_error(check_model_name(text));
  check_result(parse_request_version(text));
  require(is_utf8(printable(text)), "printable text is UTF-8");
}

void read_coding(std::string_view text) {
  check_result(parse_content_encoding(text));
  choose_coding(text);
  base64_decoded(text);
  parse_size(text);
}

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  switch (input[0]) {
    case 't': return read_context(text);
    case 's': return read_trace_settings(text);
    case 'r': return read_restrictions(text);
    case 'p': return read_path(text);
    default: return read_coding(text);
  }
}

std::vector<std::string> seeds() {
  return {"t00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\ncongo=t61rcWkgMzE",
          "tcc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
          "srate=100\nlevel=TIMESTAMPS\ncount=5\ntriton,file=trace.json\nlog_frequency=2",
          "smode=opentelemetry\nopentelemetry,url=https://host:4317\n"
          "opentelemetry,resource=service.name=x\nopentelemetry,bsp_max_queue_size=10\n"
          "opentelemetry,headers=a=b",
          "trace_rate=1\ntrace_level=OFF",
          "rhealth,metadata:x-key=secret\ninference:k=v",
          "p/v2/models/a%20b/versions/1/infer",
          "p/v2/repository/models/m/load",
          "p/v2/systemsharedmemory/region/r/register",
          "egzip;q=0.5, deflate;q=0, *;q=0.1",
          "eaGVsbG8="};
}

const Registration registration({"headers", run, seeds});

}  // namespace
}  // namespace tutti::fuzz
