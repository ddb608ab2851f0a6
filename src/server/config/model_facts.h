// What a configuration is checked against: the model file and the machine.
#pragma once

#include <cstdint>
#include <string>

#include "server/infer.h"

namespace tutti::server {

struct ModelFacts {
  ModelSignature signature;  // whole shapes, a batch dimension included
  int ranks = 1;
  std::string mesh;                // "cfg=2,cp=4"; "" for one rank
  std::int64_t largest_batch = 0;  // of the first dimension of the inputs; 0: no bound is known
};

struct DeviceFacts {
  std::string backend;  // what runs the ranks: "cpu", "cuda"
  int gpus = 0;
};

// A kind of model, as `backend` and `platform` name it.
struct BackendName {
  std::string backend;
  std::string platform;
};

}  // namespace tutti::server
