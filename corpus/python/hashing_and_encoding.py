import base64
import binascii
import hashlib
import hmac
import struct
import uuid
import zlib
from pathlib import Path


def file_hash(path, algorithm="sha256", chunk=4096):
    h = hashlib.new(algorithm)
    with open(path, "rb") as f:
        while block := f.read(chunk):
            h.update(block)
    return h.hexdigest()


for algorithm in ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b"):
    print(f"{algorithm:<9} {hashlib.new(algorithm, b'river').hexdigest()[:40]}")
print(file_hash("data/story.txt")[:32])
print("hmac", hmac.new(b"key", b"message", hashlib.sha256).hexdigest()[:32])
print("pbkdf2", hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 1000).hex()[:32])
print("crc32", f"{zlib.crc32(b'river'):08x}", "adler", zlib.adler32(b"river"))

data = bytes(range(0, 256, 17))
for encode, decode in ((base64.b64encode, base64.b64decode), (base64.urlsafe_b64encode, base64.urlsafe_b64decode),
                       (base64.b32encode, base64.b32decode), (base64.b85encode, base64.b85decode), (binascii.hexlify, binascii.unhexlify)):
    text = encode(data)
    assert decode(text) == data
    print(encode.__name__, text.decode())

packed = struct.pack("<IhB4sd", 70000, -2, 255, b"abcd", 1.5)
print(packed.hex(), struct.unpack("<IhB4sd", packed), struct.calcsize("<IhB4sd"))
print(uuid.uuid5(uuid.NAMESPACE_DNS, "example.org"), uuid.uuid3(uuid.NAMESPACE_URL, "x"), len(str(uuid.uuid4())))

names = {}
for path in sorted(Path("data").glob("*.csv")):
    names.setdefault(file_hash(path, "md5"), []).append(path.name)
print("duplicates:", [n for n in names.values() if len(n) > 1])
