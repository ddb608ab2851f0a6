# C++ protocol libraries, generated from the descriptors inside installed Python packages:
#   tutti_proto_onnx    onnx.pb.h
#   tutti_proto_kserve  grpc_service.pb.h, grpc_service.grpc.pb.h, model_config.pb.h, health.*
#   tutti_proto_otlp    opentelemetry/proto/..., what traces are exported with
# Include them by these names.

# tutti_protocol(TARGET GROUP MESSAGES name... SERVICES name...)
# GROUP is an argument of scripts/extract_descriptors.py; SERVICES are MESSAGES with gRPC stubs.
function(tutti_protocol target group)
  cmake_parse_arguments(ARG "" "" "MESSAGES;SERVICES" ${ARGN})
  set(dir "${PROJECT_BINARY_DIR}/generated/proto/${group}")
  set(descriptors "${dir}/${group}.desc")
  set(script "${PROJECT_SOURCE_DIR}/scripts/extract_descriptors.py")
  file(MAKE_DIRECTORY "${dir}")

  add_custom_command(
    OUTPUT "${descriptors}"
    COMMAND "${TUTTI_PYTHON}" "${script}" ${group} "${descriptors}"
    DEPENDS "${script}" "${PROJECT_SOURCE_DIR}/python/requirements.txt"
    COMMENT "Extracting the ${group} descriptors"
    VERBATIM)

  set(sources)
  foreach(name IN LISTS ARG_MESSAGES)
    list(APPEND sources "${dir}/${name}.pb.cc")
  endforeach()
  set(outputs ${sources})
  list(TRANSFORM outputs REPLACE "\\.cc$" ".h")
  set(protos ${ARG_MESSAGES})
  list(TRANSFORM protos APPEND .proto)
  add_custom_command(
    OUTPUT ${sources} ${outputs}
    COMMAND protobuf::protoc "--descriptor_set_in=${descriptors}" "--cpp_out=${dir}" ${protos}
    DEPENDS "${descriptors}"
    COMMENT "Generating the ${group} messages"
    VERBATIM)

  if(ARG_SERVICES)
    set(stubs)
    foreach(name IN LISTS ARG_SERVICES)
      list(APPEND stubs "${dir}/${name}.grpc.pb.cc")
    endforeach()
    set(stub_headers ${stubs})
    list(TRANSFORM stub_headers REPLACE "\\.cc$" ".h")
    set(protos ${ARG_SERVICES})
    list(TRANSFORM protos APPEND .proto)
    add_custom_command(
      OUTPUT ${stubs} ${stub_headers}
      COMMAND protobuf::protoc "--descriptor_set_in=${descriptors}" "--grpc_out=${dir}"
              "--plugin=protoc-gen-grpc=${TUTTI_GRPC_CPP_PLUGIN}" ${protos}
      DEPENDS "${descriptors}"
      COMMENT "Generating the ${group} service stubs"
      VERBATIM)
    list(APPEND sources ${stubs})
  endif()

  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC "${dir}")
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
  if(ARG_SERVICES)
    target_link_libraries(${target} PUBLIC gRPC::grpc++)
  endif()
endfunction()

# tutti_protocol_file(TARGET FILE): NAME.pb.h of our own NAME.proto in the current folder.
function(tutti_protocol_file target file)
  set(dir "${PROJECT_BINARY_DIR}/generated/proto/${target}")
  get_filename_component(name "${file}" NAME_WE)
  file(MAKE_DIRECTORY "${dir}")
  add_custom_command(
    OUTPUT "${dir}/${name}.pb.cc" "${dir}/${name}.pb.h"
    COMMAND protobuf::protoc "--proto_path=${CMAKE_CURRENT_SOURCE_DIR}" "--cpp_out=${dir}" "${file}"
    DEPENDS "${file}"
    COMMENT "Generating the messages of ${file}"
    VERBATIM)
  add_library(${target} STATIC "${dir}/${name}.pb.cc")
  target_include_directories(${target} SYSTEM PUBLIC "${dir}")
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
endfunction()

tutti_protocol(tutti_proto_onnx onnx MESSAGES onnx)
if(TUTTI_BUILD_SERVER)
  tutti_protocol(tutti_proto_kserve kserve
    MESSAGES model_config grpc_service health
    SERVICES grpc_service health)
  set(otlp_service opentelemetry/proto/collector/trace/v1/trace_service)
  tutti_protocol(tutti_proto_otlp otlp
    MESSAGES opentelemetry/proto/common/v1/common opentelemetry/proto/resource/v1/resource
             opentelemetry/proto/trace/v1/trace ${otlp_service}
    SERVICES ${otlp_service})
endif()
