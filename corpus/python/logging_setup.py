import io
import logging
import logging.handlers
import sys
import warnings

stream = io.StringIO()
logger = logging.getLogger("shop.orders")
logger.setLevel(logging.DEBUG)
formatter = logging.Formatter("%(levelname)-8s %(name)s %(funcName)s:%(lineno)d %(message)s")
for handler, level in ((logging.StreamHandler(sys.stdout), logging.INFO), (logging.StreamHandler(stream), logging.DEBUG)):
    handler.setLevel(level)
    handler.setFormatter(formatter)
    logger.addHandler(handler)


class OnlyEven(logging.Filter):
    def filter(self, record):
        return not hasattr(record, "number") or record.number % 2 == 0


logger.addFilter(OnlyEven())


def process(order):
    logger.debug("processing %s", order)
    if order["amount"] < 0:
        raise ValueError("negative amount")
    logger.info("order %(id)d: %(amount).2f", order, extra={"number": order["id"]})


for order in ({"id": 1, "amount": 5}, {"id": 2, "amount": 7.25}, {"id": 3, "amount": -1}):
    try:
        process(order)
    except ValueError as error:
        logger.error("order %d failed: %r", order["id"], error)

print("--- kept")
print("\n".join(line for line in stream.getvalue().splitlines() if line.startswith(("DEBUG", "ERROR"))))

rotating = logging.handlers.RotatingFileHandler("app.log", maxBytes=200, backupCount=2)
file_logger = logging.getLogger("file")
file_logger.propagate = False
file_logger.addHandler(rotating)
for i in range(30):
    file_logger.warning("line %02d", i)
rotating.close()
import os
print(sorted(n for n in os.listdir(".") if n.startswith("app.log")))

logging.captureWarnings(True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old", DeprecationWarning)
print(len(caught), caught[0].category.__name__)
