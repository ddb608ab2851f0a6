// A kind of model, as `backend` in config.pbtxt names it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/config/devices.h"
#include "server/config/model_facts.h"
#include "server/servable_model.h"

namespace tutti::server {

// One version's file, opened.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual const ModelFacts& facts() const = 0;
  // `placement` has as many devices as facts().ranks.
  virtual Result<std::unique_ptr<ServableModel>> create_instance(const Placement& placement) = 0;
};

class ModelBackend {
 public:
  virtual ~ModelBackend() = default;
  virtual BackendName name() const = 0;
  virtual DeviceFacts devices() const = 0;
  virtual Result<std::unique_ptr<ModelSource>> open(const std::string& path) = 0;
};

}  // namespace tutti::server
