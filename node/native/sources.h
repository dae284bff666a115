// A session's clock, time zone, sleep and entropy, as src/sources.ts describes them. Questions go to the turn's host.
#pragma once

#include <napi.h>

#include <membrane/session.hpp>

namespace membrane::node {

void add_sources(const Napi::Object& words, SessionOptions& options);

}  // namespace membrane::node
