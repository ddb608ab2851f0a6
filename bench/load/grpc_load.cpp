// Sends ModelInfer requests of a tiny identity model over many connections and says how long they
// took.
//
//   grpc_load PORT CONNECTIONS SECONDS RATE [MODEL] [ELEMENTS]
//
// RATE 0: each connection has one request under way at any time. Above: so many requests a second
// over all connections, sent when their time has come whether or not others were answered; the time
// of a request counts from then, so that a server that falls behind shows. The first second is not
// counted. Every answer's status is looked at, and its bytes are compared with those sent. Prints
// JSON: requests, failures, seconds, rate, latencies in microseconds.
#include <grpc_service.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
constexpr Seconds kWarmUp{1};

struct Options {
  std::string port;
  std::size_t connections = 256;
  double seconds = 5;
  double rate = 0;
  std::string model = "identity_FP32";
  int elements = 16;
};

struct Call {
  grpc::ClientContext context;
  grpc::ByteBuffer answer;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  Clock::time_point due;
  std::size_t connection = 0;
};

class Load {
 public:
  explicit Load(const Options& options) : options_(options), values_(Values(options)) {
    inference::ModelInferRequest request;
    request.set_model_name(options_.model);
    auto* input = request.add_inputs();
    input->set_name("x");
    input->set_datatype("FP32");
    input->add_shape(options_.elements);
    request.add_outputs()->set_name("y");
    request.add_raw_input_contents(values_);
    const grpc::Slice slice(request.SerializeAsString());
    request_ = grpc::ByteBuffer(&slice, 1);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection each
    for (std::size_t i = 0; i < options_.connections; ++i) {
      const auto channel = grpc::CreateCustomChannel("127.0.0.1:" + options_.port,
                                                     grpc::InsecureChannelCredentials(), arguments);
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30));
      stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
    }
  }

  void Run() {
    begin_ = Clock::now();
    counted_from_ = begin_ + std::chrono::duration_cast<Clock::duration>(kWarmUp);
    end_ = counted_from_ + std::chrono::duration_cast<Clock::duration>(Seconds(options_.seconds));
    if (options_.rate > 0) {
      RunAtRate();
    } else {
      for (std::size_t i = 0; i < stubs_.size(); ++i) Send(i, Clock::now());
      while (under_way_ > 0) Take(Next(end_ + std::chrono::seconds(30)));
    }
    queue_.Shutdown();
  }

  void Report() {
    std::sort(latencies_.begin(), latencies_.end());
    const auto at = [&](double part) {
      const auto i = static_cast<std::size_t>(part * static_cast<double>(latencies_.size()));
      return latencies_.empty() ? 0 : latencies_[std::min(i, latencies_.size() - 1)];
    };
    std::printf(
        "{\"requests\": %zu, \"failures\": %zu, \"seconds\": %.3f, \"rate\": %.1f, \"p50_us\": "
        "%.1f, "
        "\"p99_us\": %.1f, \"longest_us\": %.1f}\n",
        latencies_.size(), failures_, options_.seconds,
        static_cast<double>(latencies_.size()) / options_.seconds, at(0.5), at(0.99), at(1));
  }

 private:
  static std::string Values(const Options& options) {
    std::vector<float> values(static_cast<std::size_t>(options.elements));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5F;
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }

  void RunAtRate() {
    const Seconds period(1 / options_.rate);
    for (std::size_t i = 0;; ++i) {
      const auto due = begin_ + std::chrono::duration_cast<Clock::duration>(period * double(i));
      if (due >= end_) break;
      while (Clock::now() < due) Take(Next(due));
      Send(i % stubs_.size(), due);
      while (Call* call = Next(Clock::time_point::min())) Take(call);
    }
    while (under_way_ > 0) Take(Next(end_ + std::chrono::seconds(30)));
  }

  // Null when none is there until then.
  Call* Next(Clock::time_point until) {
    void* tag = nullptr;
    bool is_ok = false;
    const auto deadline = std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(
                              std::max(until - Clock::now(), Clock::duration::zero()));
    const auto now =
        until == Clock::time_point::min()
            ? gpr_inf_past(GPR_CLOCK_REALTIME)
            : grpc::TimePoint<std::chrono::system_clock::time_point>(deadline).raw_time();
    const auto got = queue_.AsyncNext(&tag, &is_ok, now);
    return got == grpc::CompletionQueue::GOT_EVENT ? static_cast<Call*>(tag) : nullptr;
  }

  void Send(std::size_t connection, Clock::time_point due) {
    auto* call = new Call;
    call->due = due;
    call->connection = connection;
    call->reader = stubs_[connection]->PrepareUnaryCall(
        &call->context, "/inference.GRPCInferenceService/ModelInfer", request_, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call);
    ++under_way_;
  }

  void Take(Call* call) {
    if (call == nullptr) {
      if (Clock::now() > end_ + std::chrono::seconds(30)) std::abort();  // answers never came
      return;
    }
    --under_way_;
    const auto now = Clock::now();
    const bool is_right = call->status.ok() && HasValues(call->answer);
    failures_ += is_right ? 0 : 1;
    if (is_right && call->due >= counted_from_ && call->due < end_) {
      latencies_.push_back(std::chrono::duration<double, std::micro>(now - call->due).count());
    }
    const std::size_t connection = call->connection;
    delete call;
    if (options_.rate == 0 && now < end_) Send(connection, now);
  }

  // The answer holds the bytes sent, whole: messages of this size are one slice.
  bool HasValues(const grpc::ByteBuffer& answer) const {
    std::vector<grpc::Slice> slices;
    if (!answer.Dump(&slices).ok()) return false;
    std::string text;
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return text.find(values_) != std::string::npos;
  }

  const Options options_;
  const std::string values_;
  grpc::ByteBuffer request_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  grpc::CompletionQueue queue_;
  std::size_t under_way_ = 0;
  std::size_t failures_ = 0;
  std::vector<double> latencies_;  // microseconds
  Clock::time_point begin_;
  Clock::time_point counted_from_;
  Clock::time_point end_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: grpc_load PORT CONNECTIONS SECONDS RATE [MODEL] [ELEMENTS]\n");
    return 2;
  }
  Options options;
  options.port = argv[1];
  options.connections = std::strtoul(argv[2], nullptr, 10);
  options.seconds = std::strtod(argv[3], nullptr);
  options.rate = std::strtod(argv[4], nullptr);
  if (argc > 5) options.model = argv[5];
  if (argc > 6) options.elements = std::atoi(argv[6]);
  Load load(options);
  load.Run();
  load.Report();
}
