# cmake -DPAGE=x.html -DOUTPUT=x.cpp -P embed_page.cmake: the page as tutti::server::status_page().
file(READ "${PAGE}" text)
if(text MATCHES "\\)page\"")
  message(FATAL_ERROR "${PAGE} holds the end of its raw string")
endif()
file(WRITE "${OUTPUT}" "#include \"server/metrics/endpoint.h\"\n\n"
  "namespace tutti::server {\n\nstd::string_view status_page() {\n"
  "  static constexpr std::string_view kPage = R\"page(")
file(APPEND "${OUTPUT}" "${text}")
file(APPEND "${OUTPUT}" ")page\";\n  return kPage;\n}\n\n}  // namespace tutti::server\n")
