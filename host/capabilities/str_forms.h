// What the capability str makes of texts in other forms: URLs, Base64, HTML.
//
// Each takes its arguments from the call, and measures a result that may be far larger than they are before it is made.
// Threads: as for the call.
#pragma once

#include "host/capabilities/call.h"

namespace membrane::host {

HostResult<Value> url_encode(Call& call);
HostResult<Value> url_join(Call& call);
HostResult<Value> to_base64(Call& call);
HostResult<Value> from_base64(Call& call);
HostResult<Value> text_of_html(Call& call);
HostResult<Value> links_of_html(Call& call);

}  // namespace membrane::host
