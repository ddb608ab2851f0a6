// ModelStreamInfer with many requests and streams at a time, whoever goes first.
#include <future>
#include <thread>

#include "grpc_fixture.h"

namespace tutti::server {
namespace {

using Stream =
    grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>;

class StreamTest : public test::GrpcFixture {
 protected:
  StreamTest() { queue_capacity_ = 1000; }

  static inference::ModelInferRequest numbered(int number, int rows = 1) {
    inference::ModelInferRequest request = good("identity", rows);
    request.set_id(std::to_string(number));
    return request;
  }

  static void write_all(Stream& stream, int count, int rows) {
    for (int i = 0; i < count && stream.Write(numbered(i, rows)); ++i) {
    }
    stream.WritesDone();
  }
};

// More of them than a stream has in flight, small and larger than what is read in place.
TEST_F(StreamTest, StreamsAtOnceGetAllTheirAnswersInTheirOrder) {
  constexpr int kRequests = 150;
  start();
  std::vector<std::future<void>> clients;
  for (const int rows : {1, 1, 3000, 20000}) {
    clients.push_back(std::async(std::launch::async, [this, rows] {
      const int count = rows > 1 ? kRequests / 10 : kRequests;
      grpc::ClientContext context;
      const auto stream = stub_->ModelStreamInfer(&context);
      std::thread writer([&] { write_all(*stream, count, rows); });
      const std::string expected = numbered(0, rows).raw_input_contents(0);
      inference::ModelStreamInferResponse response;
      int read = 0;
      for (; stream->Read(&response); ++read) {
        EXPECT_EQ(response.error_message(), "");
        EXPECT_EQ(response.infer_response().id(), std::to_string(read));
        EXPECT_TRUE(response.infer_response().raw_output_contents_size() == 1 &&
                    response.infer_response().raw_output_contents(0) == expected);
      }
      writer.join();
      EXPECT_EQ(read, count);
      EXPECT_TRUE(stream->Finish().ok());
    }));
  }
  for (auto& client : clients) client.get();
}

TEST_F(StreamTest, ClientsMayGoAwayInTheMiddle) {
  start();
  for (int i = 0; i < 40; ++i) {
    grpc::ClientContext context;
    const auto stream = stub_->ModelStreamInfer(&context);
    std::thread writer([&] { write_all(*stream, 100, i % 2 == 0 ? 1 : 3000); });
    inference::ModelStreamInferResponse response;
    for (int read = 0; read < i && stream->Read(&response); ++read) {
    }
    context.TryCancel();
    writer.join();
    stream->Finish();
  }
  expect_healthy();
}

TEST_F(StreamTest, AServerMayStopInTheMiddle) {
  start();
  std::vector<std::future<grpc::Status>> clients;
  std::promise<void> answered;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::async(std::launch::async, [this, i, &answered] {
      grpc::ClientContext context;
      const auto stream = stub_->ModelStreamInfer(&context);
      std::thread writer([&] { write_all(*stream, 100000, 1); });
      inference::ModelStreamInferResponse response;
      for (int read = 0; stream->Read(&response); ++read) {
        if (i == 0 && read == 20) answered.set_value();
      }
      writer.join();
      return stream->Finish();
    }));
  }
  answered.get_future().wait();
  server_->stop(std::chrono::hours(1));
  for (auto& client : clients) EXPECT_EQ(client.get().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace tutti::server
