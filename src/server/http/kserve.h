// The KServe v2 API with Triton's extensions over HTTP: paths and JSON to and from
// InferenceService.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/http/exchange.h"
#include "server/http/infer_codec.h"
#include "server/http/routes.h"
#include "server/restrictions.h"
#include "server/service.h"

namespace re2 {
class RE2;
}

namespace tutti::server {

struct KServeHttpOptions {
  Restrictions restrictions;
  // Headers whose names hold this (RE2) become parameters of the inference; "": none.
  std::string header_forward_pattern;
};

class KServeHttp {
 public:
  // INVALID_ARGUMENT for a pattern that is none. `service` outlives it.
  static Result<std::shared_ptr<const KServeHttp>> create(InferenceService& service,
                                                          KServeHttpOptions options);
  ~KServeHttp();

  // Answers the exchange, now or when the service has.
  void handle(ExchangePtr exchange) const;

 private:
  KServeHttp(InferenceService& service, KServeHttpOptions options);

  HttpResponse answer(HttpCall call, const HttpRequest& request, const PathNames& names) const;

  // kserve_control.cpp
  HttpResponse repository_index(const HttpRequest& request, const PathNames& names) const;
  void load(const ExchangePtr& exchange, const PathNames& names) const;
  void unload(const ExchangePtr& exchange, const PathNames& names) const;
  HttpResponse logging(const HttpRequest& request) const;
  HttpResponse trace_setting(const HttpRequest& request, const PathNames& names) const;
  HttpResponse system_memory(HttpCall call, const HttpRequest& request,
                             const PathNames& names) const;
  HttpResponse cuda_memory(HttpCall call, const HttpRequest& request, const PathNames& names) const;
  Status register_cuda(const HttpRequest& request, const PathNames& names) const;

  // kserve_infer.cpp
  void infer(const ExchangePtr& exchange, const PathNames& names) const;
  void generate(const ExchangePtr& exchange, const PathNames& names, bool is_stream) const;
  Result<HttpInfer> decode(const HttpRequest& request, const PathNames& names) const;
  std::shared_ptr<RequestTrace> sample_trace(const HttpRequest& request,
                                             const PathNames& names) const;
  void forward_headers(const HttpRequest& http, InferRequest* request) const;

  InferenceService& service_;
  const KServeHttpOptions options_;
  std::unique_ptr<re2::RE2> forwarded_;  // null: none
};

}  // namespace tutti::server
