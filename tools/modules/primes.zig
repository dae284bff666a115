// Sums the primes below a number.
export fn _start() void {
    var sum: u64 = 0;
    var n: u64 = 2;
    while (n < 20000) : (n += 1) {
        var divisor: u64 = 2;
        const is_prime = while (divisor * divisor <= n) : (divisor += 1) {
            if (n % divisor == 0) break false;
        } else true;
        if (is_prime) sum += n;
    }
    var text: [24]u8 = undefined;
    var at: usize = text.len - 1;
    text[at] = '\n';
    while (sum > 0) : (sum /= 10) {
        at -= 1;
        text[at] = '0' + @as(u8, @intCast(sum % 10));
    }
    const Vector = extern struct { at: [*]const u8, size: usize };
    const vectors = [1]Vector{.{ .at = text[at..].ptr, .size = text.len - at }};
    var written: usize = 0;
    _ = fd_write(1, &vectors, 1, &written);
}
extern "wasi_snapshot_preview1" fn fd_write(fd: i32, vectors: *const anyopaque, count: usize, written: *usize) u16;
