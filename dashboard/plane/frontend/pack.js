/* The message from Python: [u32 length][JSON][float32 blobs], little endian. The JSON's "arrays" lists each blob's
   name and shape, in order. */

export function unpack(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const message = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const arrays = {};
  let at = 4 + length;
  for (const [name, shape] of message.arrays) {
    const end = at + 4 * shape.reduce((product, size) => product * size, 1);
    // slice copies, so that the floats start on a multiple of four bytes
    arrays[name] = { shape, values: new Float32Array(bytes.slice(at, end).buffer) };
    at = end;
  }
  return { ...message, arrays };
}
