#include "server/submit.h"

#include <utility>

namespace tutti::server {

void submit(const ModelFinder& finder, InferRequest request,
            const std::shared_ptr<OutputSink>& sink, TimePoint arrived, InferDone done) {
  // Each round looks up a model that was not retired yet.
  while (true) {
    const auto model = finder.find(request.model_name, request.model_version);
    if (!model.ok()) return done(model.status());
    if ((*model)->infer(request, sink, arrived, done)) return;
  }
}

}  // namespace tutti::server
