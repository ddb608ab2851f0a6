// Puts tensors where a request wants them: inputs taken from shared memory, outputs written into it
// or turned into classes. Between the service's door and the models; front ends and models see
// plain tensors.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "server/infer.h"
#include "server/shared_memory/registry.h"

namespace tutti::server {

// Gives inputs in shared memory their data and place. Errors name the input.
Status place_inputs(const SharedMemoryRegistry& memory, InferRequest* request);

// Stands between a model and a front end's sink for requests whose outputs have options.
class PlacedOutputs final : public OutputSink {
 public:
  // Errors name the output: a region that is not there or too small for what is said of it, classes
  // into shared memory. Notes in the request what lies on a device.
  static Result<std::shared_ptr<PlacedOutputs>> create(const SharedMemoryRegistry& memory,
                                                       InferRequest* request,
                                                       std::shared_ptr<OutputSink> sink);

  // INVALID_ARGUMENT when an output does not fit into its shared memory.
  Result<std::byte*> allocate(std::size_t position, const OutputDesc& output,
                              std::size_t bytes) override;

  MemoryPlace place(std::size_t position) const override;

  // Describes what was placed and makes classes: of each element of a batch its own.
  Status complete(bool is_batched, std::vector<OutputDesc>* outputs) override;

 private:
  struct Output {
    OutputOptions options;
    SharedBytes shared;
    // Until complete(): scores to choose classes from, or what shared memory cannot hold aligned.
    std::vector<std::byte> scores;
  };

  Status classify(std::size_t position, bool is_batched, OutputDesc* desc);

  std::shared_ptr<OutputSink> sink_;
  std::vector<Output> outputs_;
};

}  // namespace tutti::server
