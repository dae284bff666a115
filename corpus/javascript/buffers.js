const buf = Buffer.from('Grüße, 世界', 'utf8');
console.log(buf.length, buf.toString('hex'));
console.log(buf.toString('base64'), Buffer.from(buf.toString('base64'), 'base64').toString());
console.log(Buffer.from('ff00a1', 'hex'), Buffer.alloc(4, 1), Buffer.concat([Buffer.from('ab'), Buffer.from([99])]).toString());

const packet = Buffer.alloc(16);
packet.writeUInt32BE(0xdeadbeef, 0);
packet.writeInt16LE(-2, 4);
packet.writeDoubleLE(1.5, 8);
console.log(packet.toString('hex'), packet.readUInt32BE(0).toString(16), packet.readInt16LE(4), packet.readDoubleLE(8));
console.log(packet.subarray(0, 4), packet.slice(4, 6).length, packet.equals(Buffer.from(packet)), Buffer.compare(Buffer.from('a'), Buffer.from('b')));
console.log(buf.indexOf('世'), buf.includes('xyz'), Buffer.byteLength('é'), Buffer.isBuffer(buf), JSON.stringify(Buffer.from('hi')));
console.log([...Buffer.from('abc').entries()]);

const view = new DataView(new ArrayBuffer(8));
view.setFloat32(0, 0.1);
console.log(view.getFloat32(0), new Uint8Array(view.buffer, 0, 4));
const f = new Float64Array([1.5, -2, 3]);
console.log(f.map((x) => x * 2), Array.from(f).sort(), new Uint8ClampedArray([300, -5]), new Uint16Array(new Uint8Array([1, 2, 3, 4]).buffer));
console.log(new TextDecoder().decode(new TextEncoder().encode('naïve')), btoa('hello'), atob('aGVsbG8='));
