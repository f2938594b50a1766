/**
 * Tells what kind of array or buffer a value is by the language's name for it. Unlike constructors,
 * names are the same in every realm (`vm` contexts, Jest).
 */

/** The language's name for a value, such as `Float32Array` or `SharedArrayBuffer`. */
export function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** Whether a value is a Float32Array. */
export function isFloat32Array(value: unknown): value is Float32Array {
  return ArrayBuffer.isView(value) && tagOf(value) === 'Float32Array';
}

/** Whether a buffer is shared memory, which can be neither detached nor made smaller. */
export function isSharedBuffer(buffer: ArrayBufferLike): buffer is SharedArrayBuffer {
  return tagOf(buffer) === 'SharedArrayBuffer';
}

/** Whether a value is an ArrayBuffer or a SharedArrayBuffer. */
export function isBuffer(value: unknown): value is ArrayBufferLike {
  return ['ArrayBuffer', 'SharedArrayBuffer'].includes(tagOf(value));
}
