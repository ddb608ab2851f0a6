// Exchanges between CUDA ranks, alone: bytes a second over the link, and what an exchange costs
// when next to nothing travels. Ranks are dealt out over the GPUs that there are.
//
//   cuda_exchange RANKS [one]    "one": all on the first GPU
//
// Each line: bytes that a rank sends to others in one exchange, microseconds an exchange step by
// step and in a recorded graph, GB/s a rank and direction in the graph. $TUTTI_CUDA_EXCHANGE is
// push or pull. The exchange is the one in front of attention: tokens in pieces, 32 query and 8 key
// and value heads of 128 16-bit numbers out in pieces, all in one kernel.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "backends/cuda/backend.h"
#include "comm/mesh_communicators.h"
#include "graph/printer.h"
#include "ops/lowering.h"

namespace tutti {
namespace {

constexpr int kRepeats = 20;

struct Times {
  double stepwise = 0;  // seconds an exchange
  double recorded = 0;
};

std::string graph_text(int ranks) {
  const std::string n = std::to_string(ranks);
  const auto list = [](const std::string& value) {
    return "[" + value + ", " + value + ", " + value + "]";
  };
  const auto piece = [&](int heads) {
    return "bf16[part(t," + n + ",rank.cp), " + std::to_string(heads) + ", 128]";
  };
  return "graph (%q: " + piece(32) + ", %k: " + piece(8) + ", %v: " + piece(8) +
         ") {\n  %a, %b, %c = AllToAll(%q, %k, %v) {axis = \"cp\", ranks = " + n +
         ", from_dims = " + list("0") + ", from_units = dims" + list("t") +
         ", from_replicas = " + list("1") + ", to_dims = " + list("1") +
         ", to_units = dims[32, 8, 8], to_replicas = " + list("1") + ", sizes = dims" + list("t") +
         "}\n  return %a, %b, %c\n}";
}

// One rank with its kernel and its memory.
class Rank {
 public:
  Status set_up(Backend& backend, const RankDeviceOptions& options, const Graph& graph,
                std::int64_t tokens) {
    TUTTI_ASSIGN_OR_RETURN(device_, backend.create_rank(options));
    group_ = options.group.get();
    SymbolMap symbols = {{"t", tokens}, {"rank.cp", options.rank}};
    const Node& node = *graph.nodes().front();
    for (const Value* value : node.inputs()) {
      TUTTI_RETURN_IF_ERROR(add(value, symbols, &inputs_, &sources_));
    }
    for (const Value* value : node.outputs()) {
      TUTTI_RETURN_IF_ERROR(add(value, symbols, &outputs_, &targets_));
    }
    const std::vector<const Tensor*> constants(inputs_.size(), nullptr);
    TUTTI_ASSIGN_OR_RETURN(kernel_,
                           device_->make_kernel({node, inputs_, outputs_, constants, symbols}));
    return {};
  }

  Result<Times> time() {
    Times times;
    TUTTI_RETURN_IF_ERROR(repeat());
    TUTTI_RETURN_IF_ERROR(device_->finish());
    TUTTI_ASSIGN_OR_RETURN(times.stepwise, timed([&] { return repeat(); }));
    TUTTI_RETURN_IF_ERROR(device_->begin_recording());
    TUTTI_RETURN_IF_ERROR(repeat());
    TUTTI_ASSIGN_OR_RETURN(const auto recording, device_->end_recording());
    TUTTI_RETURN_IF_ERROR(recording->replay());
    TUTTI_ASSIGN_OR_RETURN(times.recorded, timed([&] { return recording->replay(); }));
    return times;
  }

 private:
  Status add(const Value* value, const SymbolMap& symbols, std::vector<TensorDesc>* descs,
             std::vector<void*>* places) {
    TUTTI_ASSIGN_OR_RETURN(const Dims dims, evaluate(value->shape(), symbols));
    descs->push_back({value->dtype(), dims});
    TUTTI_ASSIGN_OR_RETURN(auto buffer, device_->allocate(descs->back().byte_size()));
    places->push_back(buffer->data());
    buffers_.push_back(std::move(buffer));
    return {};
  }

  Status repeat() {
    const std::vector<const void*> sources(sources_.begin(), sources_.end());
    for (int i = 0; i < kRepeats; ++i) {
      TUTTI_RETURN_IF_ERROR(kernel_->run({sources, targets_, nullptr}));
    }
    return {};
  }

  // The shortest of three.
  template <class F>
  Result<double> timed(F&& f) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      TUTTI_RETURN_IF_ERROR(device_->finish());
      TUTTI_RETURN_IF_ERROR(group_->barrier());
      TUTTI_RETURN_IF_ERROR(device_->mark(0));
      TUTTI_RETURN_IF_ERROR(f());
      TUTTI_RETURN_IF_ERROR(device_->mark(1));
      TUTTI_RETURN_IF_ERROR(device_->finish());
      TUTTI_ASSIGN_OR_RETURN(const double seconds, device_->seconds_between(0, 1));
      best = std::min(best, seconds / kRepeats);
    }
    return best;
  }

  Communicator* group_ = nullptr;
  std::unique_ptr<RankDevice> device_;
  std::vector<TensorDesc> inputs_;
  std::vector<TensorDesc> outputs_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::vector<void*> sources_;
  std::vector<void*> targets_;
  std::unique_ptr<Kernel> kernel_;
};

Status run_size(Backend& backend, const Graph& graph, const std::vector<int>& devices,
                std::int64_t tokens) {
  const auto ranks = static_cast<int>(devices.size());
  const Mesh mesh = *Mesh::parse("cp=" + std::to_string(ranks));
  const auto communicators = make_local_mesh(mesh);
  std::vector<Status> results(devices.size());
  std::vector<Times> times(devices.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto self = static_cast<std::size_t>(rank);
      RankDeviceOptions options;
      options.device = devices[self];
      options.rank = rank;
      options.axes = {"cp"};
      options.communicators = communicators->of_rank(rank);
      options.group = communicators->group_of_rank(rank);
      Rank made;
      results[self] = made.set_up(backend, options, graph, tokens);
      if (results[self].ok()) {
        auto timed = made.time();
        results[self] = timed.status();
        if (timed.ok()) times[self] = *timed;
      }
      if (!results[self].ok()) communicators->abort(results[self]);
      (void)options.group->barrier();  // nobody frees what others may use
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : results) TUTTI_RETURN_IF_ERROR(status);
  const double sent = static_cast<double>(tokens) / ranks * 48 * 128 * 2 * (ranks - 1) / ranks;
  std::printf("%12.0f bytes  %9.1f us  %9.1f us in a graph  %7.1f GB/s\n", sent,
              times[0].stepwise * 1e6, times[0].recorded * 1e6, sent / times[0].recorded * 1e-9);
  return {};
}

Status run(int ranks, bool on_one) {
  OpRegistry ops;
  LoweringRegistry lowerings;
  register_all_ops(&ops, &lowerings);
  TUTTI_ASSIGN_OR_RETURN(const auto backend, cuda::CudaBackend::create());
  TUTTI_ASSIGN_OR_RETURN(const auto graph, parse_graph(graph_text(ranks), ops));
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(on_one ? 0 : rank % backend->device_count());
  }
  std::printf("%s\n%d ranks on GPUs %s\n", backend->describe().c_str(), ranks,
              str_cat(devices).c_str());
  for (std::int64_t tokens = ranks; tokens * 48 * 128 * 2 <= (std::int64_t{2} << 30); tokens *= 4) {
    TUTTI_RETURN_IF_ERROR(run_size(*backend, *graph, devices, tokens));
  }
  return {};
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const bool on_one = argc > 2 && std::string_view(argv[2]) == "one";
  const tutti::Status status = tutti::run(ranks, on_one);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
