// The service's answers as KServe's messages, which both front ends write: gRPC as they are, HTTP
// as JSON of the same names.
#pragma once

#include <grpc_service.pb.h>

#include <vector>

#include "server/service.h"

namespace tutti::server {

void encode_server_metadata(const ServerMetadata& metadata,
                            inference::ServerMetadataResponse* message);
void encode_metadata(const ModelMetadata& metadata, inference::ModelMetadataResponse* message);
void encode_statistics(const std::vector<ModelStatisticsEntry>& entries,
                       inference::ModelStatisticsResponse* message);
void encode_index(const std::vector<IndexEntry>& entries,
                  inference::RepositoryIndexResponse* message);

}  // namespace tutti::server
