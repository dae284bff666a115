"""What hashlib has with OpenSSL only."""

import hashlib
import hmac


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """Derives a key (RFC 8018, section 5.2)."""
    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    begun = hmac.new(bytes(password), digestmod=hash_name)
    length = begun.digest_size if dklen is None else dklen
    if length < 1:
        raise ValueError("key length must be greater than 0.")
    key = b""
    for block in range(1, -(-length // begun.digest_size) + 1):
        last = _after(begun, bytes(salt) + block.to_bytes(4, "big"))
        total = int.from_bytes(last, "big")
        for _ in range(iterations - 1):
            last = _after(begun, last)
            total ^= int.from_bytes(last, "big")
        key += total.to_bytes(begun.digest_size, "big")
    return key[:length]


def _after(begun, data):
    mac = begun.copy()
    mac.update(data)
    return mac.digest()


def install():
    if not hasattr(hashlib, "pbkdf2_hmac"):
        hashlib.pbkdf2_hmac = pbkdf2_hmac
