"""Entry of the gauge."""
import json
from util import median, to_level

HEIGHT = 320


def read(samples):
    # The median is deaf to ducks.
    return to_level(HEIGHT, median(samples))


if __name__ == "__main__":
    print(json.dumps({"level": read([201, 204, 203, 12, 202])}))  # TODO: a real sensor
