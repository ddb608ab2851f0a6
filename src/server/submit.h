// Brings a request to whatever version of its model is there when it comes.
#pragma once

#include <memory>

#include "server/infer.h"
#include "server/repository/model_loader.h"

namespace tutti::server {

// `done` is called once, possibly before this returns; with the finder's error when there is no
// such model. A model that is replaced meanwhile loses no request.
void submit(const ModelFinder& finder, InferRequest request,
            const std::shared_ptr<OutputSink>& sink, TimePoint arrived, InferDone done);

}  // namespace tutti::server
