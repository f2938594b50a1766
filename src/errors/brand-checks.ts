/**
 * Tells what a value is. In a `vm` context, and so under Jest, `instanceof` is false for objects of
 * another realm: what Node's own modules throw and return, and what the caller made elsewhere. These
 * checks ask for the language's name of a value, or for the members that the library uses.
 *
 * `SafetensorsError` and `Tensor` are classes of this library, which exist once in a realm. For them
 * `instanceof` is right.
 */

/** The language's name for a value, such as `Float32Array` or `SharedArrayBuffer`. */
export function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** Whether a value is a Float32Array. */
export function isFloat32Array(value: unknown): value is Float32Array {
  return ArrayBuffer.isView(value) && tagOf(value) === 'Float32Array';
}

/** Whether a value is a Uint8Array, such as a Buffer. */
export function isUint8Array(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && tagOf(value) === 'Uint8Array';
}

/** Whether a buffer is shared memory, which can be neither detached nor made smaller. */
export function isSharedArrayBuffer(buffer: ArrayBufferLike): buffer is SharedArrayBuffer {
  return tagOf(buffer) === 'SharedArrayBuffer';
}

/** Whether a value is an ArrayBuffer or a SharedArrayBuffer. */
export function isAnyArrayBuffer(value: unknown): value is ArrayBufferLike {
  return ['ArrayBuffer', 'SharedArrayBuffer'].includes(tagOf(value));
}

/** Whether a value is an object to iterate over. A string is one value, not a list of characters. */
export function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof Object(value)[Symbol.iterator] === 'function' && typeof value === 'object';
}

/** Whether a value is an object for `for await`, such as a stream. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof Object(value)[Symbol.asyncIterator] === 'function' && typeof value === 'object';
}

/** Whether a value is a URL. The result of the old `url.parse` is not; it has `auth` and `path`. */
export function isUrl(value: unknown): value is URL {
  const { href, protocol, auth, path } = Object(value);
  const isOld = auth !== undefined || path !== undefined;
  return typeof href === 'string' && typeof protocol === 'string' && !isOld;
}

/** Whether a value is an AbortSignal. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  const { aborted, addEventListener, throwIfAborted } = Object(value);
  return (
    typeof aborted === 'boolean' &&
    typeof addEventListener === 'function' &&
    typeof throwIfAborted === 'function'
  );
}
