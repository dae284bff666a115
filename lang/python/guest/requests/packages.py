"""requests.packages.urllib3, as old programs say it: the package, or what stands in for it."""

import importlib
import sys

for _name in ("urllib3", "urllib3.exceptions", "urllib3.util", "urllib3.util.retry"):
    sys.modules[f"{__name__}.{_name}"] = importlib.import_module(_name)
urllib3 = sys.modules["urllib3"]
